package example

import (
	"encoding/json"
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
		if strings.Contains(name, "/") {
			continue // it belongs into this repository
		}
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

// Daemon compiles the controller of the document and its test as a part of this repository, which stays as it is: the
// toolchain is shown the files of dir in their places. It returns the paths of the daemon and of the test program.
func Daemon(root, dir string) (daemon, test string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", "", err
	}
	document, err := os.ReadFile(filepath.Join(root, Document))
	if err != nil {
		return "", "", err
	}
	files, err := Files(string(document))
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", Document, err)
	}
	places, err := inPlace(root, files)
	if err != nil {
		return "", "", err
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for place, text := range places {
		file := filepath.Join(dir, strings.ReplaceAll(place, "/", "-"))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return "", "", err
		}
		overlay["Replace"][filepath.Join(root, place)] = file
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return "", "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o644); err != nil {
		return "", "", err
	}
	daemon, test = filepath.Join(dir, "orrery"), filepath.Join(dir, "teams.test")
	for _, args := range [][]string{
		{"build", "-overlay", list, "-o", daemon, "./cmd/orrery"}, {"test", "-c", "-vet=off", "-overlay", list, "-o", test, "./controllers/teams"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath -pgo=off", "CGO_ENABLED=0", "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return daemon, test, nil
}

// inPlace returns the files of the daemon that the document adds or changes, by where they are in the repository.
func inPlace(root string, files map[string]string) (map[string]string, error) {
	const list, last, imports = "controllers/controllers.go", "\t\tttlafterfinished.Descriptor(),\n", "import (\n"
	places := map[string]string{}
	for name, text := range files {
		if strings.Contains(name, "/") {
			places[name] = text
		}
	}
	program := files["teams.go"]
	begin, end := strings.Index(program, "// Descriptor says"), strings.Index(program, "type reconciler")
	if begin < 0 || end < begin {
		return nil, fmt.Errorf("teams.go has no Descriptor before its reconciler")
	}
	places["controllers/teams/reconcile.go"] = strings.Replace(program[:begin]+program[end:], "package main", "package teams", 1)
	text, err := os.ReadFile(filepath.Join(root, list))
	if err != nil {
		return nil, err
	}
	all := string(text)
	for _, add := range [][2]string{{imports, "\t\"orrery/controllers/teams\"\n"}, {last, "\t\tteams.Descriptor(),\n"}} {
		if strings.Count(all, add[0]) != 1 {
			return nil, fmt.Errorf("%s has no single %q", list, add[0])
		}
		all = strings.Replace(all, add[0], add[0]+add[1], 1)
	}
	places[list] = all
	return places, nil
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
