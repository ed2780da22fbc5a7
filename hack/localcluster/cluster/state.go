package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// State is what a cluster writes about itself into its folder, for other
// processes to find it and, if need be, to clean up after it.
type State struct {
	// Name is Options.Name.
	Name string `json:"name"`
	// Dir is the cluster's folder; Temporary says that it goes with the cluster.
	Dir       string `json:"dir"`
	Temporary bool   `json:"temporary"`
	// Owner is the process that holds the cluster.
	Owner Identity `json:"owner"`
	// Server is the URL of kube-apiserver.
	Server string `json:"server"`
	// Kubeconfig is the administrator's.
	Kubeconfig string `json:"kubeconfig"`
	// Components are the processes in the order in which they are to be stopped.
	Components []Component `json:"components"`
	// StartedAt is when the start began.
	StartedAt time.Time `json:"startedAt"`
}

// Component is one process of a cluster.
type Component struct {
	Name string `json:"name"`
	Log  string `json:"log"`
	Identity
}

// Identity names a process for good: ids are used again, a pair of id and start
// time is not.
type Identity struct {
	PID int `json:"pid"`
	// Birth is the process's start time in clock ticks since boot.
	Birth int64 `json:"birth"`
}

// identify returns the identity of a process; the Birth of one that has ended is 0.
func identify(pid int) Identity {
	stat, err := readStat(pid)
	if err != nil || stat.dead {
		return Identity{PID: pid}
	}
	return Identity{PID: pid, Birth: stat.birth}
}

// Alive reports whether exactly this process still runs.
func (i Identity) Alive() bool {
	return i.Birth != 0 && identify(i.PID) == i
}

// Signal sends a signal to exactly this process; one that has ended is no error.
func (i Identity) Signal(signal syscall.Signal) error {
	if !i.Alive() {
		return nil
	}
	if err := syscall.Kill(i.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", i.PID, err)
	}
	return nil
}

// StatePath returns the path of the state file in a cluster's folder.
func StatePath(dir string) string { return filepath.Join(dir, "state.json") }

// ReadState reads the state file of a cluster's folder.
func ReadState(dir string) (State, error) {
	text, err := os.ReadFile(StatePath(dir))
	if err != nil {
		return State{}, fmt.Errorf("read cluster state: %w", err)
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		return State{}, fmt.Errorf("read cluster state %s: %w", StatePath(dir), err)
	}
	return state, nil
}

func (c *Cluster) writeState() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeStateLocked()
}

// writeStateLocked replaces the state file in one step. The caller holds c.mu.
func (c *Cluster) writeStateLocked() error {
	state := State{
		Name: c.options.Name, Dir: c.dir, Temporary: c.temporary, Owner: identify(os.Getpid()),
		Server: c.Server(), Kubeconfig: c.files.AdminKubeconfig, StartedAt: c.started,
	}
	processes := append([]*Process(nil), c.managers...)
	for _, p := range append(processes, c.kwok, c.scheduler, c.apiServer, c.etcd) {
		if p != nil && p.Running() {
			state.Components = append(state.Components,
				Component{Name: p.name, Log: p.logPath, Identity: identify(p.PID())})
		}
	}
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cluster state: %w", err)
	}
	temporary := StatePath(c.dir) + ".tmp"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write cluster state: %w", err)
	}
	if err := os.Rename(temporary, StatePath(c.dir)); err != nil {
		return fmt.Errorf("write cluster state: %w", err)
	}
	return nil
}
