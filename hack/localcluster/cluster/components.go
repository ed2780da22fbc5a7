package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/internal/binaries"
)

// stagesText is what kwok does with nodes and pods; see stages.
//
//go:embed stages.yaml
var stagesText string

// containersText defines what stages.yaml asks about containers.
//
//go:embed containers.jq
var containersText string

// stages returns the configuration of kwok. Expressions cannot share definitions
// there, so each gets its copy.
func stages() string {
	var definitions []string
	for line := range strings.Lines(containersText) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			definitions = append(definitions, line)
		}
	}
	return strings.ReplaceAll(stagesText, "@containers@", strings.Join(definitions, " "))
}

// Grace periods: how long a component may take to end after SIGTERM.
const (
	shortGrace  = 5 * time.Second
	serverGrace = 15 * time.Second
	// managerGrace covers a controller manager that lets its loops finish.
	managerGrace = 30 * time.Second
)

// launch starts a component and watches for an end that nobody asked for.
func (c *Cluster) launch(cmd command) (*Process, error) {
	p, err := start(c.launcher, c.logDir(), cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		<-p.done
		if p.endExpected.Load() {
			return
		}
		select {
		case c.failures <- p.failure():
		default: // Nobody reads: the first failures tell enough.
		}
	}()
	return p, nil
}

func (c *Cluster) startEtcd() error {
	p, err := c.launch(command{
		name:  binaries.Etcd,
		path:  c.programs[binaries.Etcd],
		args:  append(etcdArgs(c.ports, filepath.Join(c.dir, "etcd")), c.options.EtcdArgs...),
		grace: shortGrace,
	})
	c.mu.Lock()
	c.etcd = p
	c.mu.Unlock()
	return err
}

// startAPIServer starts kube-apiserver and waits until it is ready. It does not
// wait for etcd: kube-apiserver does that itself, and has other work meanwhile.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	begin := time.Now()
	p, err := c.launch(command{
		name:  binaries.APIServer,
		path:  c.programs[c.options.apiServer()],
		args:  append(apiServerArgs(c.ports, c.files), c.options.APIServerArgs...),
		url:   c.Server(),
		grace: serverGrace,
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.apiServer = p
	c.mu.Unlock()
	if err := c.waitForAPIServer(ctx); err != nil {
		return err
	}
	c.logStep("etcd and kube-apiserver ready", begin)
	return nil
}

func (c *Cluster) startScheduler() error {
	p, err := c.launch(command{
		name:  binaries.Scheduler,
		path:  c.programs[binaries.Scheduler],
		args:  append(append(schedulerArgs(c.ports, c.files), c.options.emulation()...), c.options.SchedulerArgs...),
		url:   address("https", c.ports.scheduler),
		grace: shortGrace,
	})
	c.mu.Lock()
	c.scheduler = p
	c.mu.Unlock()
	return err
}

// startKwok waits for the namespace of leases first: without it kwok sleeps a
// whole second before it tries again.
func (c *Cluster) startKwok(ctx context.Context) error {
	if c.options.NoKwok {
		return nil
	}
	path := filepath.Join(c.dir, "kwok.yaml")
	if err := os.WriteFile(path, []byte(stages()), 0o644); err != nil {
		return fmt.Errorf("write kwok stages: %w", err)
	}
	err := poll(ctx, "namespace "+corev1.NamespaceNodeLease, c.APIServer(), func(ctx context.Context) error {
		_, err := c.client.CoreV1().Namespaces().Get(ctx, corev1.NamespaceNodeLease, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	p, err := c.launch(command{
		name:  binaries.Kwok,
		path:  c.programs[binaries.Kwok],
		args:  kwokArgs(c.files, path),
		env:   []string{"KWOK_WORKDIR=" + c.dir}, // keep the user's own kwok.yaml out
		grace: shortGrace,
	})
	c.mu.Lock()
	c.kwok = p
	c.mu.Unlock()
	return err
}

// Etcd returns etcd's process.
func (c *Cluster) Etcd() *Process { return c.component(&c.etcd) }

// APIServer returns kube-apiserver's process; it changes with RestartAPIServer.
func (c *Cluster) APIServer() *Process { return c.component(&c.apiServer) }

// Scheduler returns kube-scheduler's process.
func (c *Cluster) Scheduler() *Process { return c.component(&c.scheduler) }

// Kwok returns kwok's process, or nil without kwok.
func (c *Cluster) Kwok() *Process { return c.component(&c.kwok) }

func (c *Cluster) component(p **Process) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *p
}
