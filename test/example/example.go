package example

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Document is where the code stands, relative to the root of the repository.
const Document = "docs/writing-a-controller.md"

// Files returns the Go files in a document: the blocks marked as Go, each of which begins with its name in a comment.
func Files(document string) (map[string]string, error) {
	files := map[string]string{}
	var name string
	var code []string
	inside := false
	for n, line := range strings.Split(document, "\n") {
		switch {
		case !inside && line == "```go":
			inside, name, code = true, "", nil
		case inside && line == "```":
			inside = false
			if _, twice := files[name]; twice || name == "" {
				return nil, fmt.Errorf("line %d: the block above has no name of its own in its first line", n+1)
			}
			files[name] = strings.Join(code, "\n") + "\n"
		case inside:
			if comment, ok := strings.CutPrefix(line, "// "); ok && len(code) == 0 && strings.HasSuffix(comment, ".go") {
				name = comment
			}
			code = append(code, line)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go code")
	}
	return files, nil
}

// Build writes the program of the document to a folder, as a module that uses this repository, and builds it there. It
// needs nothing from the network. root is the repository. It returns the program's path.
func Build(root, dir string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	document, err := os.ReadFile(filepath.Join(root, Document))
	if err != nil {
		return "", err
	}
	files, err := Files(string(document))
	if err != nil {
		return "", fmt.Errorf("%s: %w", Document, err)
	}
	if err := module(root, files); err != nil {
		return "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	program := filepath.Join(dir, "teams")
	for _, args := range [][]string{{"vet", "."}, {"build", "-o", program, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return program, nil
}

// module adds the files that `go mod tidy` would write: with the versions that this repository has.
func module(root string, files map[string]string) error {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(mod)) {
		if !strings.HasPrefix(line, "module ") && !strings.HasPrefix(line, "tool ") {
			lines = append(lines, line)
		}
	}
	files["go.mod"] = "module example.com/teams\n" + strings.Join(lines, "") + "\nrequire orrery v0.0.0\n\nreplace orrery => " + root + "\n"
	files["go.sum"] = string(sum)
	return nil
}
