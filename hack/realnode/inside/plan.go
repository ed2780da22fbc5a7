package inside

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// The stages, as the first argument names them.
const (
	First  = "@isolate"
	second = "@reap"
	third  = "@boot"
)

// Address is the node's, in its own network.
const Address = "10.123.0.1"

// Ready is the last line that the node tells.
const Ready = "ready"

// Files that the first process is given by number.
const (
	door = 3 + iota // a socket that listens on the machine's network
	held            // closed when the process has been put into its cgroups
	told            // takes lines that tell how far the node is
)

// Plan is what the node is made of.
type Plan struct {
	Name      string            `json:"name"` // host name and name of the Node
	Dir       string            `json:"dir"`
	Programs  map[string]string `json:"programs"` // paths by name
	Images    []string          `json:"images"`   // archives
	Version   string            `json:"version"`  // of Kubernetes
	PauseName string            `json:"pauseName"`
	PluginDir string            `json:"pluginDir"`
	// Full adds a name server, and makes the manager provision volumes that are folders of the node.
	Full bool `json:"full"`
}

// kept are the folders of the node that are folders of the machine's, in the order in which they are needed: what is seen
// from outside, and what does not bear an overlay below it.
var kept = map[string]string{
	"kubernetes": "/etc/kubernetes",
	"containerd": "/var/lib/containerd",
	"etcd":       "/var/lib/etcd",
	"pods":       "/var/log/pods",
}

// Write makes the node's folder.
func (p Plan) Write() error {
	for _, dir := range []string{"logs", "upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(p.Dir, dir), 0o755); err != nil {
			return fmt.Errorf("make the node's folder: %w", err)
		}
	}
	for dir := range kept {
		if err := os.MkdirAll(filepath.Join(p.Dir, dir), 0o700); err != nil {
			return fmt.Errorf("make the node's folder: %w", err)
		}
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.Dir, "plan.json"), text, 0o600)
}

func readPlan(dir string) (Plan, error) {
	var p Plan
	text, err := os.ReadFile(filepath.Join(dir, "plan.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("read plan: %w", err)
	}
	return p, nil
}

// Stage reports whether an argument names a stage.
func Stage(arg string) bool { return arg == First || arg == second || arg == third }

// Run runs the stage that the first argument names, on the node whose folder is the second.
func Run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a stage and a folder, and not %q", args)
	}
	p, err := readPlan(args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case First:
		return isolate(p)
	case second:
		return supervise(p)
	}
	return boot(p)
}
