package manager_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"orrery/kit/manager"
)

// TestMain is a process that waits for signals where a test asks for one.
func TestMain(m *testing.M) {
	if os.Getenv("MANAGER_TEST_SIGNALS") == "" {
		os.Exit(m.Run())
	}
	ctx, stop := manager.SignalContext(context.Background())
	defer stop()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("told to stop")
	time.Sleep(time.Minute) // it hangs
}

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	for range 20 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "MANAGER_TEST_SIGNALS=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for _, want := range []string{"ready", "told to stop"} {
			if !lines.Scan() || lines.Text() != want {
				t.Fatalf("%q, want %q", lines.Text(), want)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Fatalf("ended with %v, want the signal", exit)
		}
	}
}

func TestTheConfigurationIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://example.com"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	for _, given := range []string{path, ""} {
		if config, err := manager.LoadConfig(given); err != nil || config.Host != "https://example.com" {
			t.Errorf("%q: %v, %v", given, config, err)
		}
	}
	if _, err := manager.LoadConfig("/does/not/exist"); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("a file that is not there: %v", err)
	}
}
