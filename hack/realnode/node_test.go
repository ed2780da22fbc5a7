package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// folder returns a node whose files are a test's.
func folder(t *testing.T, name string) *node {
	t.Helper()
	t.Setenv("ORRERY_CACHE", t.TempDir())
	n, err := find(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(n.path("kubernetes", "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNamesThatWouldLeaveTheFolderAreRefused(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "A", "-a", strings.Repeat("a", 33)} {
		if _, err := find(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestTheSwitchChangesOneLine(t *testing.T) {
	n := folder(t, "a")
	path := n.path("kubernetes", "manifests", manager+".yaml")
	const text = "spec:\n  containers:\n  - command:\n    - kube-controller-manager\n    image: registry.k8s.io/x:v1\n    imagePullPolicy: IfNotPresent\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		image   string
		changed bool
	}{{"orrery:v1", true}, {"orrery:v1", false}, {"registry.k8s.io/x:v1", true}} {
		changed, err := n.editManifest(step.image)
		got, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || changed != step.changed || string(got) != strings.Replace(text, "registry.k8s.io/x:v1", step.image, 1) {
			t.Errorf("%s: changed %v, %v, %v:\n%s", step.image, changed, err, readErr, got)
		}
	}
	if err := os.WriteFile(path, []byte(text+text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.editManifest("orrery:v1"); err == nil {
		t.Error("a manifest with two images is edited")
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("the kubelet would run one of %v", entries)
	}
}

// TestAProcessIsKnownByItsBirth keeps "down" from ending a process that merely has the number of one that is gone.
func TestAProcessIsKnownByItsBirth(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	born, running := birth(cmd.Process.Pid)
	s := state{PID: cmd.Process.Pid, Born: born}
	if !running || born == "" || !s.alive() {
		t.Errorf("a running process: born %q, %v", born, running)
	}
	if other := (state{PID: s.PID, Born: born + "0"}); other.alive() {
		t.Error("another process is taken for it")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if !s.alive() { // it is a zombie
			break
		}
	}
	_ = cmd.Wait()
	if s.alive() {
		t.Error("it is gone and said to live")
	}
}

func TestANodeThatNeverWasIsDownAndDoesNotRun(t *testing.T) {
	n := folder(t, "b")
	if err := os.RemoveAll(n.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := n.running(); err == nil || !strings.Contains(err.Error(), "realnode -name b up") {
		t.Errorf("running: %v", err)
	}
	if err := n.down(t.Context()); err != nil {
		t.Errorf("down: %v", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Setenv("ORRERY_CACHE", t.TempDir())
	for _, args := range [][]string{
		{"nothing"}, {"up", "now"}, {"switch"}, {"switch", "a", "b"}, {"-name", "..", "down"}, {"load", "x"}, {"exec"}, {"kubectl", "get"}, {"status"},
		{"switch", "orrery"},
	} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
