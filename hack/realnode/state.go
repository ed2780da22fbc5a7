package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// node is one node, running or not, and what the command line says about it.
type node struct {
	name    string
	dir     string // all of its files
	cgroup  string // name of its cgroup in every hierarchy
	timeout time.Duration
	// forSuite: the node is for the specs of the end-to-end tests.
	forSuite bool
	keep     bool // what did not get up, to look at

	imageTool, orrery, localcluster string // programs
	repo                            string // this repository
}

// state is what is remembered of a node that was started.
type state struct {
	PID int `json:"pid"`
	// Born is the time of the process's start as the kernel counts it: with it, the process is not mistaken for another
	// that has its number.
	Born string `json:"born"`
	// Server is the address at which kube-apiserver is reached from this machine.
	Server string `json:"server"`
}

var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// find returns the node of a name. Nothing need exist of it.
func find(name string) (*node, error) {
	if !nodeName.MatchString(name) {
		return nil, fmt.Errorf("name %q: want lower-case letters, digits and dashes, 32 at most", name)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	return &node{name: name, dir: filepath.Join(cache, "realnode", name), cgroup: "orrery-realnode-" + name}, nil
}

// cacheDir is the folder that the local cluster keeps its files in, too.
func cacheDir() (string, error) {
	if dir := os.Getenv("ORRERY_CACHE"); dir != "" {
		return filepath.Abs(filepath.Join(dir, "orrery"))
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w (set ORRERY_CACHE)", err)
	}
	return filepath.Join(dir, "orrery"), nil
}

// path returns a path below the node's folder.
func (n *node) path(parts ...string) string {
	return filepath.Join(append([]string{n.dir}, parts...)...)
}

// hostname is the node's, and the name of its Node.
func (n *node) hostname() string { return "node-" + n.name }

// kubeconfig is the administrator's, for use on this machine.
func (n *node) kubeconfig() string { return n.path("kubeconfig") }

func (n *node) save(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(n.path("node.json"), text, 0o600)
}

// read reads what is remembered; false means that nothing is.
func (n *node) read() (state, bool, error) {
	var s state
	text, err := os.ReadFile(n.path("node.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, false, fmt.Errorf("read the node's state: %w", err)
	}
	return s, true, nil
}

// running returns the state of a node that runs.
func (n *node) running() (state, error) {
	s, known, err := n.read()
	if err == nil && (!known || !s.alive()) {
		err = fmt.Errorf("node %q is not running; start it with \"realnode -name %s up\"", n.name, n.name)
	}
	return s, err
}

func (s state) alive() bool {
	born, running := birth(s.PID)
	return running && born == s.Born
}

// birth returns when a process was started, in the kernel's ticks, and whether it has not ended since.
func birth(pid int) (ticks string, running bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// The name in parentheses may hold anything. State is the first field behind it, the start the twentieth.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", false
	}
	return fields[19], fields[0] != "Z" && fields[0] != "X"
}
