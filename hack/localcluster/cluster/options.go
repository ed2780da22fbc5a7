package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orrery/hack/localcluster/internal/binaries"
)

// ManagerKind names a controller manager.
type ManagerKind string

// The controller managers a cluster can have.
const (
	// None starts no controller manager.
	None ManagerKind = "none"
	// Upstream is kube-controller-manager.
	Upstream ManagerKind = "upstream"
	// Orrery is the program that Options.OrreryBin names.
	Orrery ManagerKind = "orrery"
)

// DefaultNodes is how many nodes the command line tool makes when not told.
const DefaultNodes = 5

// Options describe a cluster. The zero value is a cluster without nodes and
// without a controller manager, in a temporary folder.
type Options struct {
	// KubernetesVersion is the release of kube-apiserver, one of OlderVersions; empty means that of all other programs.
	KubernetesVersion string
	// Name is used in messages and in the state file only.
	Name string
	// Nodes is the number of fake nodes.
	Nodes int
	// ControllerManager is what is started last; empty means None.
	ControllerManager ManagerKind
	// OrreryBin is the program that plays Orrery. It must exist when the kind
	// Orrery is started.
	OrreryBin string
	// CMArgs are appended to the controller manager's arguments; of a flag that
	// is given twice the later wins.
	CMArgs []string
	// APIServerArgs, SchedulerArgs and EtcdArgs are appended likewise.
	APIServerArgs, SchedulerArgs, EtcdArgs []string
	// Dir holds all files of the cluster and must be empty or missing. Empty
	// means a temporary folder that Stop removes.
	Dir string
	// BinDir is where programs are looked for first.
	BinDir string
	// Untaint removes the not-ready taint of every node that Start makes.
	Untaint bool
	// LeaveNodeCIDRs leaves spec.podCIDRs of the nodes to the controller
	// manager. Otherwise each node gets its ranges when it is made, so that
	// pods have addresses of both families under any controller manager.
	LeaveNodeCIDRs bool
	// NoKwok leaves kwok out: nodes stay as their creator made them.
	NoKwok bool
	// ReadyTimeout bounds the start without building; 0 means two minutes.
	ReadyTimeout time.Duration
	// Log receives one line per step; nil discards them.
	Log io.Writer
}

const defaultReadyTimeout = 2 * time.Minute

// complete fills in defaults and reports what cannot work.
func (o *Options) complete() error {
	if o.Name == "" {
		o.Name = "unnamed"
	}
	if o.ControllerManager == "" {
		o.ControllerManager = None
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Nodes < 0 || o.Nodes > maxNodes {
		return fmt.Errorf("nodes is %d: must be 0 to %d", o.Nodes, maxNodes)
	}
	switch o.ControllerManager {
	case None, Upstream:
	case Orrery:
		if err := checkProgram(o.OrreryBin); err != nil {
			return err
		}
	default:
		return fmt.Errorf("controller manager %q: must be %s, %s or %s", o.ControllerManager, Upstream, Orrery, None)
	}
	if o.OrreryBin == "" {
		return nil
	}
	// Components run in the cluster's folder, where a relative path leads nowhere.
	path, err := filepath.Abs(o.OrreryBin)
	if err != nil {
		return fmt.Errorf("find controller manager %s: %w", Orrery, err)
	}
	o.OrreryBin = path
	return nil
}

func checkProgram(path string) error {
	if path == "" {
		return fmt.Errorf("controller manager %s: the path of its binary is not given", Orrery)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("find controller manager %s: %w", Orrery, err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("find controller manager %s: %s is not a program", Orrery, path)
	}
	return nil
}

// OlderVersions are the releases of kube-apiserver that a cluster can have instead of its usual one.
func OlderVersions() []string { return binaries.Older() }

// Built reports whether kube-apiserver of a release needs not be built any more.
func Built(version string) bool {
	_, missing, err := binaries.Find(binaries.Request{Names: []string{binaries.OlderAPIServer(version)}})
	return err == nil && len(missing) == 0
}

// emulation has a program ask for no kind that an older kube-apiserver does not have.
func (o *Options) emulation() []string {
	if o.apiServer() == binaries.APIServer {
		return nil
	}
	minor, _, _ := strings.Cut(strings.TrimPrefix(o.KubernetesVersion, "v1."), ".")
	return []string{"--emulated-version=1." + minor}
}

// apiServer is the name of the program that plays kube-apiserver.
func (o *Options) apiServer() string {
	if o.KubernetesVersion == "" || o.KubernetesVersion == binaries.Version {
		return binaries.APIServer
	}
	return binaries.OlderAPIServer(o.KubernetesVersion)
}

// programs returns the names of the binaries that this cluster needs at its start.
func (o *Options) programs() []string {
	names := []string{binaries.Etcd, o.apiServer(), binaries.Scheduler}
	if !o.NoKwok {
		names = append(names, binaries.Kwok)
	}
	if o.ControllerManager == Upstream {
		names = append(names, binaries.ControllerManager)
	}
	return names
}

// makeDir makes the cluster's folder and says whether it is a temporary one.
func (o *Options) makeDir() (dir string, temporary bool, err error) {
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "orrery-localcluster-")
		if err != nil {
			return "", false, fmt.Errorf("make cluster folder: %w", err)
		}
		return dir, true, nil
	}
	dir, err = filepath.Abs(o.Dir)
	if err != nil {
		return "", false, fmt.Errorf("make cluster folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", false, fmt.Errorf("make cluster folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false, fmt.Errorf("make cluster folder: %w", err)
	}
	if len(entries) > 0 {
		return "", false, fmt.Errorf("make cluster folder: %s is not empty", dir)
	}
	return dir, false, nil
}
