package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hierarchies returns the folders at which this machine's cgroup hierarchies are mounted.
func hierarchies() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			found = append(found, fields[1])
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted")
	}
	return found, nil
}

// confine makes the node's cgroups and moves a process into them.
func (n *node) confine(pid int) error {
	mounts, err := hierarchies()
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		group := filepath.Join(mount, n.cgroup)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		// A new cpuset of version 1 has no processors, and takes no process before it has.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			text, err := os.ReadFile(filepath.Join(mount, file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(group, file), text, 0o644); err != nil {
				return fmt.Errorf("set up cgroup: %w", err)
			}
		}
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups removes the node's cgroups and all below. A process that has just ended can hold one a little longer.
func (n *node) removeCgroups() error {
	mounts, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, mount := range mounts {
		group := filepath.Join(mount, n.cgroup)
		err := removeGroup(group)
		for try := 0; errors.Is(err, syscall.EBUSY) && try < 100; try++ {
			time.Sleep(50 * time.Millisecond)
			err = removeGroup(group)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeGroup removes a cgroup, its children first.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list cgroup: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeGroup(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}
