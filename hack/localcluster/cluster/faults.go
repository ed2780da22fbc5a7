package cluster

import (
	"context"
	"syscall"
)

// KillAPIServer kills kube-apiserver without warning, as a crash would.
func (c *Cluster) KillAPIServer() error { return c.APIServer().Kill() }

// RestartAPIServer starts kube-apiserver again on its old port, stopping it
// first when it runs, and waits until it is ready.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if old := c.APIServer(); old.Running() {
		if err := old.Stop(ctx); err != nil {
			return err
		}
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	return c.writeState()
}

// PauseEtcd freezes etcd: connections stay open and nothing answers.
func (c *Cluster) PauseEtcd() error { return c.Etcd().Signal(syscall.SIGSTOP) }

// ContinueEtcd ends PauseEtcd.
func (c *Cluster) ContinueEtcd() error { return c.Etcd().Signal(syscall.SIGCONT) }

// PauseKwok freezes every kubelet at once: no lease is renewed, no pod starts or ends.
func (c *Cluster) PauseKwok() error { return c.Kwok().Signal(syscall.SIGSTOP) }

// ContinueKwok ends PauseKwok.
func (c *Cluster) ContinueKwok() error { return c.Kwok().Signal(syscall.SIGCONT) }
