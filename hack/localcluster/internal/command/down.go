package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/internal/registry"
)

// stopTimeout bounds a stop by the owner: the longest chain of grace periods.
const stopTimeout = 70 * time.Second

func newDown(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster and remove its temporary files",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.down(cmd.Context())
		},
	}
}

func (a *app) down(ctx context.Context) error {
	state, err := a.state()
	if err != nil {
		return err
	}
	if err := state.Owner.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := waitGone(ctx, state.Owner); err != nil {
		return err
	}
	// The owner has cleaned up, unless it was killed.
	claim, leftover, err := takeSoon(ctx, a.name)
	if errors.Is(err, registry.ErrTaken) {
		return nil // someone has already started the next one
	}
	if err != nil {
		return err
	}
	if err := errors.Join(clearLeftover(leftover), registry.RemoveLog(a.name), claim.Release()); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "cluster %q is stopped\n", a.name)
	return nil
}

// takeSoon claims a name whose owner has just ended. The last threads of a
// killed process can hold its locks a little longer than it is seen to live.
func takeSoon(ctx context.Context, name string) (claim *registry.Claim, leftover string, err error) {
	for range 40 {
		claim, leftover, err = registry.Take(name)
		if !errors.Is(err, registry.ErrTaken) || ctx.Err() != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return claim, leftover, err
}

func waitGone(ctx context.Context, process cluster.Identity) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, fmt.Errorf("still running after %v", stopTimeout))
	defer cancel()
	for process.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop process %d: %w", process.PID, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// state returns what is known of the named cluster.
func (a *app) state() (cluster.State, error) {
	dir, err := registry.Dir(a.name)
	if err == nil {
		var state cluster.State
		if state, err = cluster.ReadState(dir); err == nil {
			return state, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return cluster.State{}, fmt.Errorf("cluster %q is not running; start it with \"localcluster up --name %s\"", a.name, a.name)
	}
	return cluster.State{}, err
}

// stopState ends every process in a state file whose owner is dead, in order,
// and removes the files.
func stopState(state cluster.State) error {
	for _, component := range state.Components {
		if err := component.Signal(syscall.SIGKILL); err != nil {
			return fmt.Errorf("end %s: %w", component.Name, err)
		}
	}
	for _, component := range state.Components {
		if err := waitGone(context.Background(), component.Identity); err != nil {
			return err
		}
	}
	path := cluster.StatePath(state.Dir)
	if state.Temporary {
		path = state.Dir
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove files of the cluster: %w", err)
	}
	return nil
}
