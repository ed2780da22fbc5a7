package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"orrery/hack/localcluster/cluster"
	"orrery/test/conformance/kubelet"
)

// measure runs the specs with one manager on a fresh cluster and writes the result.
func measure(ctx context.Context, s settings, suite cluster.Suite, kind cluster.ManagerKind, round int, specs []spec, built controllers) (*result, error) {
	name := string(kind)
	if s.real {
		name = "real-" + name
	}
	if round > 0 {
		name = fmt.Sprintf("%s-%d", name, round+1)
	}
	dir := filepath.Join(s.out, name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove the last results: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder for results: %w", err)
	}
	fmt.Printf("%s: %d specs\n", name, len(specs))
	if s.real {
		return measureReal(ctx, s, suite, kind, dir, name, specs)
	}
	c, err := startCluster(ctx, s, kind, filepath.Join(dir, "cluster"), built)
	if err != nil {
		return nil, err
	}
	kubelets, err := kubelet.Start(ctx, c.Client())
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	r := &runner{suite: suite, kubeconfig: c.Kubeconfig(), dir: dir, procs: s.procs, nodes: s.nodes}
	got := &result{Manager: name, Kubernetes: suite.Version, Started: time.Now().UTC()}
	err = r.all(ctx, specs, s.attempts, got)
	got.Seconds = time.Since(got.Started).Seconds()
	return got, errors.Join(err, removeVolumes(context.WithoutCancel(ctx), c.Client()), kubelets.Stop(), c.Stop(), crashes(c), os.RemoveAll(filepath.Join(c.Dir(), "etcd")),
		got.write(filepath.Join(s.out, name+".json")))
}

// all runs the specs, and those that fail again, as often as they may.
func (r *runner) all(ctx context.Context, specs []spec, attempts int, into *result) error {
	for attempt := 1; attempt <= attempts && len(specs) > 0; attempt++ {
		got, err := r.attempt(ctx, specs, attempt)
		if err != nil {
			return err
		}
		into.add(specs, got, attempt)
		specs = into.failed(specs)
	}
	return nil
}

// startCluster starts a cluster with the manager in question as its first.
func startCluster(ctx context.Context, s settings, kind cluster.ManagerKind, dir string, built controllers) (*cluster.Cluster, error) {
	o := cluster.Options{
		Name: "conformance", Nodes: s.nodes, Untaint: true, Dir: dir, OrreryBin: s.orrery,
		ControllerManager: kind, CMArgs: []string{"-v=2"}, APIServerArgs: []string{kubelet.APIServerArg},
	}
	if kind == cluster.Upstream {
		o.CMArgs = append(o.CMArgs, provisioning)
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := complete(ctx, c, kind, built); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// complete adds what the specs need beside the manager in question: the controllers that Orrery does not have.
func complete(ctx context.Context, c *cluster.Cluster, kind cluster.ManagerKind, built controllers) error {
	if kind == cluster.Orrery {
		p, err := c.StartControllerManager(ctx, cluster.Upstream, append(built.beside(), "-v=2", provisioning)...)
		if err != nil {
			return err
		}
		if err := p.WaitHealthy(ctx); err != nil {
			return err
		}
	}
	if err := addStorageClass(ctx, c.Client()); err != nil {
		return err
	}
	return c.WaitUsable(ctx)
}

// crashes reports the processes that ended by themselves: a spec may well pass in spite of that.
func crashes(c *cluster.Cluster) error {
	var errs []error
	for len(c.Failures()) > 0 {
		errs = append(errs, <-c.Failures())
	}
	return errors.Join(errs...)
}
