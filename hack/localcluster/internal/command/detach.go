package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"orrery/hack/localcluster/internal/registry"
)

// detach runs this very command line again, in the background and without
// --detach, and returns when the cluster of that process is ready. What the
// background process writes goes to a log file and, until then, to the screen.
func (a *app) detach(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	log, err := registry.CreateLog(a.name)
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(self, append(os.Args[1:], "--detach=false")...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return a.follow(ctx, cmd.Process.Pid, log.Name(), ended)
}

// follow copies the background process's words until the cluster is up.
func (a *app) follow(ctx context.Context, pid int, logPath string, ended <-chan error) error {
	file, err := os.Open(logPath)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	for {
		up := a.ownedBy(pid)
		_, _ = io.Copy(a.out, reader)
		if up {
			fmt.Fprintf(a.out, "  runs in the background; stop it with \"localcluster down --name %s\"\n", a.name)
			return nil
		}
		select {
		case <-ended:
			_, _ = io.Copy(a.out, reader)
			_ = registry.RemoveLog(a.name)
			return exitError(1)
		case <-ctx.Done():
			_ = syscall.Kill(pid, syscall.SIGTERM)
			<-ended
			_, _ = io.Copy(a.out, reader)
			_ = registry.RemoveLog(a.name)
			return exitError(130)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ownedBy reports whether the named cluster is ready and held by process pid.
func (a *app) ownedBy(pid int) bool {
	_, ready, err := registry.Lookup(a.name)
	if err != nil || !ready {
		return false
	}
	state, err := a.state()
	return err == nil && state.Owner.PID == pid
}
