package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"orrery/hack/realnode/inside"
)

// up starts the node and waits until it is ready. What it has begun it removes if that fails.
func (n *node) up(ctx context.Context) (err error) {
	begin := time.Now()
	if err := requirements(); err != nil {
		return fmt.Errorf("this machine cannot run a node: %w", err)
	}
	if s, known, err := n.read(); err != nil || known && s.alive() {
		return errors.Join(err, fmt.Errorf("node %q runs already", n.name))
	}
	if err := n.remove(); err != nil {
		return fmt.Errorf("remove the last node: %w", err)
	}
	built, err := n.build(ctx)
	if err != nil {
		return err
	}
	names, err := kubeadmImages(ctx, built["kubeadm"])
	if err != nil {
		return err
	}
	archives, err := n.pack(ctx, built, names)
	if err != nil {
		return err
	}
	fmt.Printf("programs and images are there after %.1f s\n", time.Since(begin).Seconds())
	ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, fmt.Errorf("not ready after %v", n.timeout))
	defer cancel()
	plan := inside.Plan{
		Name: n.hostname(), Dir: n.dir, Programs: built, Images: archives, Version: version, PauseName: names["pause"], PluginDir: pluginDir,
		Full: n.forSuite,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.tail())
		}
		if err != nil && !n.keep {
			err = errors.Join(err, n.down(context.WithoutCancel(ctx)))
		}
	}()
	if err := n.start(ctx, plan); err != nil {
		return err
	}
	fmt.Printf("node %q is ready after %.1f s\n  export KUBECONFIG=%s\n  logs: %s\n",
		n.name, time.Since(begin).Seconds(), n.kubeconfig(), n.path("logs"))
	return nil
}

// start makes the first process, in namespaces of its own, and follows what it tells until it is ready.
func (n *node) start(ctx context.Context, plan inside.Plan) error {
	if err := plan.Write(); err != nil {
		return err
	}
	// Sockets belong to the network in which they were made: this one listens on the machine's and is served from within.
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("listen for kube-apiserver: %w", err)
	}
	defer listener.Close()
	door, err := listener.File()
	if err != nil {
		return err
	}
	defer door.Close()
	held, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer held.Close()
	progress, told, err := os.Pipe()
	if err != nil {
		return errors.Join(err, release.Close())
	}
	defer progress.Close()
	log, err := os.Create(n.path("logs", "node.log"))
	if err != nil {
		return errors.Join(err, release.Close(), told.Close())
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", inside.First, n.dir)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.ExtraFiles = []*os.File{door, held, told}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	err = cmd.Start()
	_ = told.Close()
	if err != nil {
		return errors.Join(fmt.Errorf("start the node: %w", err), release.Close())
	}
	go func() { _ = cmd.Wait() }() // until it ends it is nobody's concern; then it must not stay a zombie
	born, _ := birth(cmd.Process.Pid)
	s := state{PID: cmd.Process.Pid, Born: born, Server: "https://" + listener.Addr().String()}
	if err := errors.Join(n.save(s), n.confine(cmd.Process.Pid), release.Close()); err != nil {
		return err
	}
	if err := follow(ctx, progress); err != nil {
		return err
	}
	return n.writeKubeconfig(s)
}

// follow prints what the node tells, until it is ready or gives up.
func follow(ctx context.Context, progress io.ReadCloser) error {
	stop := context.AfterFunc(ctx, func() { _ = progress.Close() })
	defer stop()
	begin := time.Now()
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		line := lines.Text()
		if line == inside.Ready {
			return nil
		}
		fmt.Printf("%6.1f s  %s\n", time.Since(begin).Seconds(), line)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.New("the node has ended")
}

// writeKubeconfig writes the administrator's kubeconfig with the address that this machine reaches.
func (n *node) writeKubeconfig(s state) error {
	text, err := os.ReadFile(n.path("kubernetes", "admin.conf"))
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	own := strings.Replace(string(text), "https://"+inside.Address+":6443", s.Server, 1)
	return os.WriteFile(n.kubeconfig(), []byte(own), 0o600)
}

// tail returns the end of the node's log as an error.
func (n *node) tail() error {
	text, err := os.ReadFile(n.path("logs", "node.log"))
	if err != nil {
		return nil // it was never written
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return errors.New(strings.Join(lines[max(0, len(lines)-15):], "\n"))
}
