package example

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func TestTheProgramOfTheDocumentBuilds(t *testing.T) {
	program, err := Build(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(program); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("no program: %v", err)
	}
}

func TestTheCodeOfTheDocumentIsFormatted(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, Document))
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(string(document))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "teams.go", "webhook.go"} {
		if files[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	for name, text := range files {
		if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
			t.Errorf("%s is not formatted: %v", name, err)
		}
	}
}

// The controller of the document is compiled into the daemon, which has it among its controllers, and passes its test.
func TestTheControllerOfTheDocumentIsOneOfTheDaemon(t *testing.T) {
	daemon, program, err := Daemon(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Errorf("its test: %v\n%s", err, out)
	}
	if out, err := exec.Command(daemon, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "team-controller") {
		t.Errorf("the help of the daemon does not list it: %v", err)
	}
}

func TestBlocksNeedNamesOfTheirOwn(t *testing.T) {
	for name, document := range map[string]string{
		"none":        "text",
		"no name":     "```go\npackage main\n```",
		"name twice":  "```go\n// a.go\n```\n```go\n// a.go\n```",
		"other block": "```yaml\n// a.go\n```",
	} {
		if _, err := Files(document); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	files, err := Files("x\n```go\n// a.go\npackage a\n```\ny")
	if err != nil || files["a.go"] != "// a.go\npackage a\n" || strings.Contains(files["a.go"], "x") {
		t.Errorf("%q, %v", files, err)
	}
}
