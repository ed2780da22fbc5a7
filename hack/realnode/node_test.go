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

func TestTheImageIsTheOnlyOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod.yaml")
	const text = "spec:\n  containers:\n  - command:\n    - kube-controller-manager\n    image: registry.k8s.io/x:v1\n    imagePullPolicy: IfNotPresent\n"
	for n, want := range []string{"", "registry.k8s.io/x:v1", ""} {
		if err := os.WriteFile(path, []byte(strings.Repeat(text, n)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := imageIn(path); got != want || (err != nil) != (want == "") {
			t.Errorf("%d images: %q, %v", n, got, err)
		}
	}
}

// TestTheDocumentationSaysHowToSwitch reads the commands that the switch runs, and finds those that matter.
func TestTheDocumentationSaysHowToSwitch(t *testing.T) {
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	there, err := documented(string(text), "2. Make both manifests", "4. Check that Orrery has taken over")
	if err != nil || !strings.Contains(there, "kubectl patch --local") || !strings.HasSuffix(there, "mv orrery.yaml manifests/kube-controller-manager.yaml") {
		t.Errorf("%v: there with\n%s", err, there)
	}
	back, err := documented(string(text), "## Go back", "or")
	if err != nil || !strings.Contains(back, "rm manifests/kube-controller-manager-rest.yaml") {
		t.Errorf("%v: back with\n%s", err, back)
	}
	for _, bad := range []string{"prose only\nend", "start\n    command\n", "    command\nend", "start\nprose\nend"} {
		if got, err := documented(bad, "start", "end"); err == nil {
			t.Errorf("%q has the commands %q", bad, got)
		}
	}
	if _, err := imageIn("../../manifests/kubeadm/" + manager + "+strategic.yaml"); err != nil {
		t.Error(err)
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

// TestAFolderIsWeighed tells contents apart, so that an archive that is there already is not taken for another.
func TestAFolderIsWeighed(t *testing.T) {
	dir := t.TempDir()
	seen := map[[2]int64]string{}
	for _, step := range []struct{ file, text string }{{"a", ""}, {"b", "x"}, {"b", "xyz"}} {
		if err := writeText(filepath.Join(dir, step.file), step.text); err != nil {
			t.Fatal(err)
		}
		size, err := weigh(dir)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := seen[size]; ok {
			t.Errorf("%v weighs %v, as did %s", step, size, before)
		}
		seen[size] = step.file + step.text
	}
	if size, err := weigh(""); err != nil || size != [2]int64{} {
		t.Errorf("no folder weighs %v, %v", size, err)
	}
}

func writeText(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }

// TestAProgramIsCopiedWithItsLibraries runs the copy where nothing else is.
func TestAProgramIsCopiedWithItsLibraries(t *testing.T) {
	for _, program := range []string{"ldd", "ls", "chroot"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root may change the root")
	}
	root := t.TempDir()
	if err := addDynamic(t.Context(), root, "ls", "bin/list"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("chroot", root, "/bin/list", "/bin").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "list" {
		t.Errorf("%v: %s", err, out)
	}
	if err := addDynamic(t.Context(), root, "no-such-program", "bin/x"); err == nil {
		t.Error("a program that is not there is copied")
	}
}
