package inside

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed files
var files embed.FS

// machine is the node while it starts.
type machine struct {
	Plan
	tell *os.File
}

// boot makes a control-plane node of the machine, in the order in which an administrator would, and keeps it.
func boot(p Plan) error {
	m := &machine{Plan: p, tell: os.NewFile(told, "told")}
	listener, err := net.FileListener(os.NewFile(door, "door"))
	if err != nil {
		return fmt.Errorf("take over the socket: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"network", m.network},
		{"configuration", m.configure},
		{"containerd", func(ctx context.Context) error { return m.startRuntime(ctx, cancel) }},
		{"images", m.importImages},
		{"kubeadm: certificates, kubeconfigs and static pods", m.kubeadmBefore},
		{"kubelet", m.startKubelet},
		{"kube-apiserver", m.waitServer},
		{"kubeadm: configuration, roles and tokens", m.kubeadmAfter},
		{"kube-proxy", m.startProxy},
		{"node", m.waitNode},
		{"name server", m.names},
	}
	for _, step := range steps {
		begin := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, errors.Join(err, context.Cause(ctx)))
		}
		fmt.Fprintf(m.tell, "%-52s %5.1f s\n", step.what, time.Since(begin).Seconds())
	}
	go forward(listener)
	fmt.Fprintln(m.tell, Ready)
	_ = m.tell.Close()
	<-ctx.Done()
	return context.Cause(ctx)
}

// run runs a program to its end.
func (m *machine) run(ctx context.Context, program string, args ...string) error {
	if path := m.Programs[program]; path != "" {
		program = path
	}
	cmd := exec.CommandContext(ctx, program, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	fmt.Fprintf(os.Stderr, "+ %s %s\n%s", filepath.Base(program), strings.Join(args, " "), output.Bytes())
	if err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(program), strings.Join(args, " "), err)
	}
	return nil
}

// output runs a program and returns what it prints.
func (m *machine) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, m.Programs[program], args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return out, nil
}

// start starts a program that is to stay, and calls ended when it has not.
func (m *machine) start(name string, ended func(error), args ...string) error {
	log, err := os.OpenFile(filepath.Join(m.Dir, "logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	program := name
	if path := m.Programs[name]; path != "" {
		program = path
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { ended(fmt.Errorf("%s has ended: %w", name, cmd.Wait())) }()
	return nil
}

// keep starts a program again whenever it ends, as an init system would.
func (m *machine) keep(name string, args ...string) error {
	var again func(error)
	again = func(err error) {
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(time.Second)
		if err := m.start(name, again, args...); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return m.start(name, again, args...)
}

// await tries until it works.
func await(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// network brings up the addresses that a node has.
func (m *machine) network(ctx context.Context) error {
	for _, command := range []string{
		"link set lo up",
		"link add node0 type bridge",
		"address add " + Address + "/24 dev node0",
		"link set node0 up",
		"route add default dev node0",
	} {
		if err := m.run(ctx, "ip", strings.Fields(command)...); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let packets be forwarded: %w", err)
	}
	// Without this a pod would reach no Service whose pods are on its own bridge. Not every kernel has it.
	if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "packets of bridges are not filtered:", err)
	}
	return nil
}

// configure writes the files that an administrator would.
func (m *machine) configure(context.Context) error {
	for name, path := range map[string]string{
		"containerd.toml": "/etc/containerd/config.toml",
		"cni.json":        "/etc/cni/net.d/10-pods.conflist",
		"kubeadm.yaml":    kubeadmConfig,
	} {
		text, err := m.fill(name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	hosts := "127.0.0.1 localhost\n" + Address + " " + m.Name + "\n"
	return os.WriteFile("/etc/hosts", []byte(hosts), 0o644)
}

// fill returns a file with what differs between nodes.
func (m *machine) fill(name string) ([]byte, error) {
	text, err := template.ParseFS(files, "files/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := text.Execute(&out, struct {
		Plan
		Address, Pause string
	}{m.Plan, Address, m.PauseName}); err != nil {
		return nil, fmt.Errorf("fill in %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// startRuntime starts containerd and waits until it answers. The node ends with it.
func (m *machine) startRuntime(ctx context.Context, cancel context.CancelCauseFunc) error {
	if err := m.start("containerd", cancel); err != nil {
		return err
	}
	return await(ctx, func() error { return exec.CommandContext(ctx, "ctr", "version").Run() })
}

// importImages imports two at a time, as unpacking them is work for a processor.
func (m *machine) importImages(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, archive := range m.Images {
		group.Go(func() error { return m.run(ctx, "ctr", "-n", "k8s.io", "images", "import", archive) })
	}
	return group.Wait()
}
