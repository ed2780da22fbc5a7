package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell starts a shell script as a component.
func shell(t *testing.T, script string, grace time.Duration) *Process {
	t.Helper()
	l := newLauncher()
	t.Cleanup(l.close)
	logs := filepath.Join(t.TempDir(), "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := start(l, logs, command{name: "shell", path: "/bin/sh", args: []string{"-c", script}, grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("not within 25 s: %s", what)
}

func TestStopEndsAProcessThatListens(t *testing.T) {
	p := shell(t, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done", 5*time.Second)
	eventually(t, "script runs", func() bool { return p.LogTail(1) == "up" })
	if err := p.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if p.Running() || p.ExitCode() != 0 || p.LogTail(1) != "bye" {
		t.Errorf("running %v, exit code %d, log %q", p.Running(), p.ExitCode(), p.LogTail(1))
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestStopKillsAProcessThatDoesNotListenAndSaysSo(t *testing.T) {
	p := shell(t, "trap '' TERM; echo up; while :; do sleep 0.05; done", 200*time.Millisecond)
	eventually(t, "script runs", func() bool { return p.LogTail(1) == "up" })
	if err := p.Stop(context.Background()); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("stop: %v, want an error that says it killed", err)
	}
	if p.Running() {
		t.Error("it still runs")
	}
}

func TestStopReachesAPausedProcess(t *testing.T) {
	p := shell(t, "echo up; exec sleep 60", 5*time.Second)
	eventually(t, "script runs", func() bool { return p.LogTail(1) == "up" })
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := p.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestWaitTellsHowAProcessEnded(t *testing.T) {
	p := shell(t, "exit 7", time.Second)
	err := p.Wait(context.Background())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || p.ExitCode() != 7 {
		t.Errorf("wait: %v, exit code %d; want 7", err, p.ExitCode())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := shell(t, "sleep 60", time.Second).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait for a running process: %v", err)
	}
}

func TestUsageIsKnownBeforeAndAfterTheEnd(t *testing.T) {
	p := shell(t, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo spun; sleep 60", time.Second)
	eventually(t, "work is done", func() bool { return p.LogTail(1) == "spun" })
	alive, err := p.Usage()
	if err != nil || alive.CPU <= 0 || alive.RSS <= 0 || alive.PeakRSS < alive.RSS {
		t.Errorf("running: %+v, %v", alive, err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	ended, err := p.Usage()
	if err != nil || ended.CPU <= 0 || ended.PeakRSS <= 0 || ended.RSS != 0 {
		t.Errorf("ended: %+v, %v", ended, err)
	}
}

// TestComponentsDieWithTheirOwner kills a process that has started a component
// and looks whether the component is gone. The test binary plays the owner.
func TestComponentsDieWithTheirOwner(t *testing.T) {
	if os.Getenv("CLUSTER_TEST_OWNER") != "" {
		p := shell(t, "exec sleep 60", time.Second)
		fmt.Println("component", p.PID())
		select {}
	}
	owner := exec.Command(os.Args[0], "-test.run=^TestComponentsDieWithTheirOwner$")
	owner.Env = append(os.Environ(), "CLUSTER_TEST_OWNER=1", "TMPDIR="+t.TempDir()) // it cannot clean up behind itself
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "component ")))
	if err != nil {
		t.Fatalf("owner said %q: %v", line[:n], err)
	}
	component := identify(pid)
	if !component.Alive() {
		t.Fatal("the component does not run")
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	eventually(t, "the component is gone", func() bool { return !component.Alive() })
}

func TestALauncherThatIsClosedStartsNothing(t *testing.T) {
	l := newLauncher()
	l.close()
	l.close()
	if _, err := start(l, t.TempDir(), command{name: "shell", path: "/bin/true"}); err == nil {
		t.Error("a process was started")
	}
}
