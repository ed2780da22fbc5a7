package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// down ends the node's first process, which takes all others and all mounts and network devices along, and removes the
// rest. It finds what is left of a node that was killed, or never got up, in the same way.
func (n *node) down(ctx context.Context) error {
	s, known, err := n.read()
	if err != nil {
		return err
	}
	if known && s.alive() {
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d: %w", s.PID, err)
		}
		for s.alive() {
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for process %d: %w", s.PID, context.Cause(ctx))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return n.remove()
}

func (n *node) remove() error {
	// A process or a mount in the folder would be of a namespace that still lives: do not reach into it.
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	if strings.Contains(string(mounts), " "+n.dir+"/") {
		return fmt.Errorf("something is mounted below %s", n.dir)
	}
	err = errors.Join(n.removeCgroups(), os.RemoveAll(n.dir))
	_ = os.Remove(filepath.Dir(n.dir)) // stays while there are others
	return err
}
