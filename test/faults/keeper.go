package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"orrery/hack/localcluster/cluster"
	"orrery/test/faults/checker"
)

// managerArgs make the lease short, so that the next manager soon takes over after a kill.
var managerArgs = []string{
	"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s",
	"--kube-api-qps=1000", "--kube-api-burst=2000", "-v=2",
	"--max-endpoints-per-slice=" + strconv.Itoa(sliceSize),
	"--node-monitor-grace-period=" + checker.NodeGrace.String(), "--node-monitor-period=2s", "--node-eviction-rate=1",
}

// keeper keeps one controller manager running.
type keeper struct {
	c    *cluster.Cluster
	kind cluster.ManagerKind
	args []string

	mu       sync.Mutex // guards the fields below
	p        *cluster.Process
	held     bool // the manager stays down
	restarts int
}

func (k *keeper) start(ctx context.Context) error {
	p, err := k.c.StartControllerManager(ctx, k.kind, k.args...)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.p = p
	k.restarts++
	return nil
}

// keep restarts the manager and the scheduler whenever they have ended, as a kubelet does. A manager that loses its lease
// exits by itself.
func (k *keeper) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.c.Failures():
		case <-time.After(100 * time.Millisecond):
		}
		switch revived, err := k.c.ReviveScheduler(); {
		case err != nil:
			say("could not start the scheduler: %v", err)
		case revived:
			say("the scheduler had ended, and is started again")
		}
		k.mu.Lock()
		down := !k.held && !k.p.Running()
		k.mu.Unlock()
		if !down {
			continue
		}
		if err := k.start(ctx); err != nil && ctx.Err() == nil {
			say("could not start the manager: %v", err)
		}
	}
}

func (k *keeper) process() *cluster.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.p
}

// down ends the manager with a signal and delays its restart.
func (k *keeper) down(signal syscall.Signal, d time.Duration) error {
	k.mu.Lock()
	k.held = true
	p := k.p
	k.mu.Unlock()
	err := p.Signal(signal)
	time.Sleep(d)
	if signal != syscall.SIGKILL {
		select {
		case <-p.Done():
		case <-time.After(40 * time.Second):
			err = fmt.Errorf("%s does not end", p.Name())
		}
	}
	k.mu.Lock()
	k.held = false
	k.mu.Unlock()
	return err
}

// dump makes the manager write the stacks of all goroutines to its log and exit.
func (k *keeper) dump() {
	p := k.process()
	if err := p.Signal(syscall.SIGQUIT); err != nil {
		say("dump %s: %v", p.Name(), err)
		return
	}
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
	}
	say("the log of %s ends with its goroutines; -keep keeps it", p.Name())
}

var crash = regexp.MustCompile(`Caught a panic|^panic: |^fatal error: |DATA RACE|Observed a panic`)

// crashes returns the lines of the manager's logs that report crashes.
func (k *keeper) crashes() (lines []string) {
	for _, p := range k.c.ControllerManagers() {
		text, err := os.ReadFile(p.LogPath())
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if crash.MatchString(line) {
				lines = append(lines, p.Name()+": "+strings.TrimSpace(line))
			}
		}
	}
	return lines
}
