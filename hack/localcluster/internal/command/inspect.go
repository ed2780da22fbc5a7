package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/internal/binaries"
	"orrery/hack/localcluster/internal/registry"
)

func newStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the processes of a cluster, and the names of other clusters",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			others, err := registry.Names()
			if err != nil {
				return err
			}
			for _, other := range others {
				if other != a.name {
					fmt.Fprintf(a.log, "there is also a cluster %q\n", other)
				}
			}
			state, err := a.state()
			if err != nil {
				return err
			}
			return a.printState(state)
		},
	}
}

// printState shows one line per process, and fails when one of them is gone.
func (a *app) printState(state cluster.State) error {
	fmt.Fprintf(a.out, "cluster %q: %s, up for %v\n  folder %s\n  export KUBECONFIG=%s\n",
		state.Name, state.Server, time.Since(state.StartedAt).Round(time.Second), state.Dir, state.Kubeconfig)
	table := tabwriter.NewWriter(a.out, 2, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  PROCESS\tPID\tSTATE\tLOG")
	var result error
	rows := append([]cluster.Component{{Name: "(owner)", Identity: state.Owner}}, state.Components...)
	for _, row := range rows {
		status := "running"
		if !row.Alive() {
			status, result = "gone", exitError(1)
		}
		fmt.Fprintf(table, "  %s\t%d\t%s\t%s\n", row.Name, row.PID, status, row.Log)
	}
	return errors.Join(table.Flush(), result)
}

func newKubeconfig(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the administrator's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			state, err := a.state()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, state.Kubeconfig)
			return err
		},
	}
}

func newKubectl(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [arguments of kubectl]",
		Short:              "Run kubectl against a cluster (put --name before \"kubectl\")",
		Example:            "  localcluster kubectl get pods -A\n  localcluster --name b kubectl apply -f app.yaml",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := a.state()
			if err != nil {
				return err
			}
			programs, err := binaries.Ensure(cmd.Context(), binaries.Request{Names: []string{binaries.Kubectl}, Log: a.log})
			if err != nil {
				return err
			}
			// Replace this process, so that kubectl gets the terminal and signals, and sets the exit code.
			path := programs[binaries.Kubectl]
			err = syscall.Exec(path, append([]string{path}, args...), append(os.Environ(), "KUBECONFIG="+state.Kubeconfig))
			return fmt.Errorf("run %s: %w", path, err)
		},
	}
}

func newBuild(a *app) *cobra.Command {
	var binDir string
	cmd := &cobra.Command{
		Use:       "build [program...]",
		Short:     "Build missing programs (those of a cluster, or the named ones) and print their paths",
		ValidArgs: binaries.Known(),
		RunE: func(cmd *cobra.Command, args []string) error {
			programs, err := binaries.Ensure(cmd.Context(), binaries.Request{Names: args, BinDir: binDir, Log: a.log})
			if err != nil {
				return err
			}
			for _, name := range binaries.Known() {
				if path := programs[name]; path != "" {
					fmt.Fprintln(a.out, path)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&binDir, "bin-dir", "", "folder with programs to use instead of building them")
	return cmd
}
