package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installed returns the path of a program of the system, and skips the test where it is not installed.
func installed(t *testing.T, program, packet string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian: apt-get install %s)", program, packet)
	}
	return path
}

func TestSystemdTakesTheUnit(t *testing.T) {
	analyze := installed(t, "systemd-analyze", "systemd")
	unit := string(read(t, root+"systemd/orrery.service"))
	verify := func(unit string) string {
		path := filepath.Join(t.TempDir(), "orrery.service")
		// The daemon is not installed on this machine.
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/local/bin/orrery", "/bin/true")), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", path).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := verify(unit); out != "" {
		t.Errorf("systemd-analyze: %s", out)
	}
	if out := verify(strings.Replace(unit, "MemoryMax=1G", "MemoryMax=much", 1)); !strings.Contains(out, "MemoryMax") && !strings.Contains(out, "memory limit") {
		t.Errorf("systemd-analyze does not notice a wrong setting: %q", out)
	}
}

// TestShellScripts runs shellcheck over all of them.
func TestShellScripts(t *testing.T) {
	check := installed(t, "shellcheck", "shellcheck")
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.sh", ".ci/run")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skipf("not a checkout: %v", err)
	}
	scripts := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	if len(scripts) < 2 {
		t.Fatalf("found %v", scripts)
	}
	cmd := exec.Command(check, append([]string{"--external-sources"}, scripts...)...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}
