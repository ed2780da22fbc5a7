package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"orrery/hack/localcluster/internal/binaries"
)

// StartControllerManager starts a controller manager of the given kind as
// kubeadm's static pod does, with extra arguments after the usual ones, and
// returns at once; see Process.WaitHealthy. Several can run at a time: the
// lease decides which one works.
func (c *Cluster) StartControllerManager(ctx context.Context, kind ManagerKind, args ...string) (*Process, error) {
	path, err := c.managerPath(ctx, kind)
	if err != nil {
		return nil, err
	}
	free, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("start controller manager: the cluster is stopped")
	}
	p, err := c.launch(command{
		name:  c.managerName(kind),
		path:  path,
		args:  override(managerArgs(kind, free[0], c.files), args),
		url:   address("https", free[0]),
		grace: managerGrace,
	})
	if err != nil {
		return nil, err
	}
	c.managers = append(c.managers, p)
	return p, c.writeStateLocked()
}

// override appends extra arguments and leaves out the usual ones of the same flag: of a flag that holds a list, such as
// --controllers, the later would not replace the earlier but add to it.
func override(usual, extra []string) []string {
	given := map[string]bool{}
	for _, arg := range extra {
		name, _, _ := strings.Cut(arg, "=")
		given[name] = true
	}
	args := slices.DeleteFunc(usual, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return given[name]
	})
	return append(args, extra...)
}

func (c *Cluster) managerPath(ctx context.Context, kind ManagerKind) (string, error) {
	switch kind {
	case Orrery:
		return c.options.OrreryBin, checkProgram(c.options.OrreryBin)
	case Upstream:
		programs, err := binaries.Ensure(ctx, binaries.Request{
			Names: []string{binaries.ControllerManager}, BinDir: c.options.BinDir, Log: c.options.Log,
		})
		return programs[binaries.ControllerManager], err
	}
	return "", fmt.Errorf("start controller manager: kind is %q, must be %s or %s", kind, Upstream, Orrery)
}

// managerName is the kind's name, numbered from the second one on, so that each
// has a log of its own.
func (c *Cluster) managerName(kind ManagerKind) string {
	name := string(kind)
	if kind == Upstream {
		name = binaries.ControllerManager
	}
	if n := len(c.managers); n > 0 {
		name = fmt.Sprintf("%s-%d", name, n+1)
	}
	return name
}

// ControllerManagers returns every controller manager ever started, oldest first.
func (c *Cluster) ControllerManagers() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Process(nil), c.managers...)
}

func (c *Cluster) startFirstManager(ctx context.Context) error {
	if c.options.ControllerManager == None {
		return nil
	}
	begin := time.Now()
	p, err := c.StartControllerManager(ctx, c.options.ControllerManager, c.options.CMArgs...)
	if err != nil {
		return err
	}
	if err := p.WaitHealthy(ctx); err != nil {
		return err
	}
	c.logStep(p.name+" healthy", begin)
	return nil
}
