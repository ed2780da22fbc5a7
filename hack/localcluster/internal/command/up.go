package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/internal/registry"
)

// upFlags are the settings of "up".
type upFlags struct {
	options cluster.Options
	manager string
	detach  bool
}

func (f *upFlags) add(flags *pflag.FlagSet) {
	o := &f.options
	flags.IntVar(&o.Nodes, "nodes", cluster.DefaultNodes, "number of fake nodes")
	flags.StringVar(&o.KubernetesVersion, "kubernetes-version", "", "release of kube-apiserver, if it should differ from that of the other programs: "+
		strings.Join(cluster.OlderVersions(), ", "))
	flags.StringVar(&o.OrreryBin, "orrery-bin", "", "path of the orrery binary")
	flags.StringArrayVar(&o.CMArgs, "cm-arg", nil, "additional argument of the controller manager; may be repeated")
	flags.StringArrayVar(&o.APIServerArgs, "apiserver-arg", nil, "additional argument of kube-apiserver; may be repeated")
	flags.StringVar(&o.Dir, "dir", "", "empty folder for all files, kept when the cluster stops (default: a temporary one, which is removed)")
	flags.StringVar(&o.BinDir, "bin-dir", "", "folder with programs to use instead of building them")
	flags.BoolVar(&o.Untaint, "untaint", false, "remove the not-ready taint of the nodes, as a controller manager would")
	flags.DurationVar(&o.ReadyTimeout, "timeout", 0, "time limit for the start, not counting builds (default 2m)")
}

func newUp(a *app) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster; in the foreground until Ctrl-C, or with --detach",
		Long: `Start a cluster and wait until kube-apiserver is ready, every node is Ready and the
controller manager, if there is one, is healthy. It then stays in the foreground
and stops everything on Ctrl-C; with --detach it runs in the background.

Every new node has the taint node.kubernetes.io/not-ready until a controller
manager removes it. With --controller-manager=none the taint stays: "up" still
completes, but pods without a toleration stay Pending. --untaint removes it.
There are no service accounts then either; create one by hand before the pods.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.options.Name = a.name
			f.options.ControllerManager = cluster.ManagerKind(f.manager)
			f.options.Log = a.log
			if f.detach {
				return a.detach(cmd.Context())
			}
			return a.hold(cmd.Context(), f.options, nil)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&f.manager, "controller-manager", string(cluster.None), "upstream, orrery or none")
	cmd.Flags().BoolVar(&f.detach, "detach", false, "return when the cluster is ready, and leave it running")
	return cmd
}

// hold starts a cluster under its name, calls ready, and keeps the cluster until
// ctx ends or one of its processes exits.
func (a *app) hold(ctx context.Context, options cluster.Options, ready func(context.Context, *cluster.Cluster) error) (err error) {
	claim, leftover, err := registry.Take(options.Name)
	if errors.Is(err, registry.ErrTaken) {
		return fmt.Errorf("cluster %q is running already; stop it with \"localcluster down --name %s\" or choose another --name",
			options.Name, options.Name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claim.Release()) }()
	if err := clearLeftover(leftover); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return exitError(130)
		}
		return err
	}
	defer func() {
		fmt.Fprintf(a.log, "stopping cluster %q\n", options.Name)
		err = errors.Join(err, c.Stop())
	}()
	if err := claim.Publish(c.Dir(), false); err != nil {
		return err
	}
	a.waitUsable(ctx, c, options.ControllerManager)
	a.describe(c)
	if err := claim.Publish(c.Dir(), true); err != nil {
		return err
	}
	if ready != nil {
		if err := ready(ctx, c); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case failure := <-c.Failures():
		return failure
	}
}

// usableTimeout bounds the wait for a controller manager's first work. A healthy
// one needs a second.
const usableTimeout = 10 * time.Second

// waitUsable gives a controller manager time for its first work. If it takes
// longer, that is worth a note but no error: the cluster itself is up.
func (a *app) waitUsable(ctx context.Context, c *cluster.Cluster, kind cluster.ManagerKind) {
	if kind == cluster.None {
		return
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, usableTimeout)
	defer cancel()
	if err := c.WaitUsable(ctx); err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(a.log, "note: pods cannot run yet: %s\n", reason)
		return
	}
	fmt.Fprintf(a.log, "%-32s %5.1f s\n", "pods can run", time.Since(begin).Seconds())
}

func (a *app) describe(c *cluster.Cluster) {
	fmt.Fprintf(a.out, "cluster %q is ready after %.1f s: %s, process %d\n",
		c.Name(), c.StartTime().Seconds(), c.Server(), os.Getpid())
	fmt.Fprintf(a.out, "  export KUBECONFIG=%s\n  logs: %s\n", c.Kubeconfig(), strings.TrimSuffix(c.Etcd().LogPath(), "etcd.log"))
}

// clearLeftover ends and removes what is left of a cluster whose owner was
// killed. The kernel ends the components with their owner; this is for what it
// could not.
func clearLeftover(dir string) error {
	if dir == "" {
		return nil
	}
	state, err := cluster.ReadState(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return stopState(state)
}
