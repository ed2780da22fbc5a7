package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is one running component. Its methods are safe for concurrent use.
type Process struct {
	name    string
	logPath string
	url     string
	cmd     *exec.Cmd
	started time.Time
	grace   time.Duration

	// endExpected is set before the process is told to end.
	endExpected atomic.Bool
	// done is closed when the process has ended; err is set before that.
	done chan struct{}
	err  error
}

// command describes a component to be started.
type command struct {
	name  string
	path  string
	args  []string
	env   []string
	url   string        // base URL of its HTTPS endpoint, empty when it has none
	grace time.Duration // between SIGTERM and SIGKILL
}

// Name returns the component's name; it is the stem of its log file too.
func (p *Process) Name() string { return p.name }

// PID returns the process id, which stays the same after the process has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogPath returns the file that holds what the process wrote to stdout and stderr.
func (p *Process) LogPath() string { return p.logPath }

// URL returns the base URL of the component's HTTPS endpoint, or "".
func (p *Process) URL() string { return p.url }

// Started returns when the process was started.
func (p *Process) Started() time.Time { return p.started }

// Args returns the arguments the process was started with, without its name.
func (p *Process) Args() []string { return append([]string(nil), p.cmd.Args[1:]...) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet. A stopped (SIGSTOP)
// process is running.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal. A process that has ended already is not an error.
func (p *Process) Signal(signal syscall.Signal) error {
	switch signal {
	case syscall.SIGSTOP, syscall.SIGCONT:
	default:
		p.endExpected.Store(true)
	}
	err := p.cmd.Process.Signal(signal)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Wait blocks until the process has ended and returns how: nil for exit code 0,
// an *exec.ExitError otherwise. It returns the context's error when that ends first.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", p.name, context.Cause(ctx))
	}
}

// ExitCode returns the exit code of an ended process, and -1 while it runs or
// when a signal ended it.
func (p *Process) ExitCode() int {
	if p.Running() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the process to end with SIGTERM, and kills it when its grace period
// or ctx ends first. It returns an error when it had to kill, because a
// component that does not stop cleanly is a finding.
func (p *Process) Stop(ctx context.Context) error {
	// A process that a test has stopped with SIGSTOP would not see SIGTERM.
	_ = p.Signal(syscall.SIGCONT)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	case <-grace.C:
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return fmt.Errorf("stop %s: still running after SIGTERM, killed", p.name)
}

// LogTail returns the last n lines of the log.
func (p *Process) LogTail(n int) string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// start runs a command through the launcher. Its output is appended to the log
// file, so that a restarted component keeps its history.
func start(l *launcher, logDir string, c command) (*Process, error) {
	logPath := filepath.Join(logDir, c.name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", c.name, err)
	}
	defer log.Close()
	cmd := exec.Command(c.path, c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Dir = filepath.Dir(logDir)
	// A group of its own keeps the terminal's Ctrl-C from reaching components
	// before their turn; the death signal ends them when this process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{
		name: c.name, logPath: logPath, url: c.url, cmd: cmd,
		started: time.Now(), grace: c.grace, done: make(chan struct{}),
	}
	if err := l.start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}
