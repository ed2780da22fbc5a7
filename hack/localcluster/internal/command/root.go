package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"orrery/hack/localcluster/internal/binaries"
)

const longHelp = `localcluster runs a Kubernetes ` + "%s" + ` control plane on this machine: etcd,
kube-apiserver, kube-scheduler, and kwok, which plays the kubelets of fake nodes.
Pods on these nodes become Running and Ready, pods of Jobs complete, deleted pods
go away; no container ever runs. It needs neither root nor a container runtime, and
listens on 127.0.0.1 only.

The programs are built once from the Go module proxy into a cache folder, which
takes several minutes, or are taken from --bin-dir or KUBEBUILDER_ASSETS.`

const examples = `  localcluster up                                      # stays until Ctrl-C
  localcluster kubectl get nodes                       # in another terminal
  localcluster up --detach --name b --nodes 100        # a second one, in the background
  localcluster --name b kubectl create deployment web --image=fake --replicas=3
  localcluster down --name b
  localcluster up --controller-manager=upstream        # with kube-controller-manager
  localcluster up --controller-manager=orrery --orrery-bin=bin/orrery --cm-arg=-v=4
  export KUBECONFIG=$(localcluster kubeconfig)
  localcluster demo --orrery-bin=bin/orrery            # and roll out an example`

// exitError makes the tool exit with a given code and without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// app is the state that all commands share.
type app struct {
	name     string // of the cluster
	out, log io.Writer
}

// Run executes one command line and returns the exit code.
func Run(args []string, out, log io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	root := newRoot(&app{out: out, log: log})
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(log)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	}
	fmt.Fprintln(log, "error:", err)
	return 1
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "localcluster",
		Short:         "Run a Kubernetes control plane on this machine",
		Long:          fmt.Sprintf(longHelp, binaries.Version),
		Example:       examples,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		// Lets --name stand before "kubectl", which passes all that follows on.
		TraverseChildren:  true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().StringVar(&a.name, "name", "default", "name of the cluster; clusters with different names run side by side")
	root.AddCommand(
		newUp(a), newDown(a), newStatus(a), newKubectl(a), newKubeconfig(a), newBuild(a), newDemo(a),
	)
	return root
}
