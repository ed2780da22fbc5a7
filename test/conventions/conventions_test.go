// Package conventions checks the rules of this codebase that a program can check.
package conventions

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root          = "../.."
	module        = "orrery"
	maxFileLines  = 400
	maxFuncLines  = 60
	dependencyTxt = "dependencies.txt"
)

// goFile is one parsed file of the product's module.
type goFile struct {
	path string // relative to the root, with slashes
	dir  string
	set  *token.FileSet
	ast  *ast.File
	data []byte
}

func (f goFile) test() bool      { return strings.HasSuffix(f.path, "_test.go") }
func (f goFile) generated() bool { return ast.IsGenerated(f.ast) }
func (f goFile) line(p token.Pos) string {
	return f.path + ":" + strconv.Itoa(f.set.Position(p).Line)
}

// files returns the Go files of the product's module. Folders with a go.mod of their own belong to others.
func files(t *testing.T) []goFile {
	t.Helper()
	var out []goFile
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || exists(filepath.Join(path, "go.mod"))) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, path, data, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		out = append(out, goFile{path: rel, dir: filepath.ToSlash(filepath.Dir(rel)), set: set, ast: tree, data: data})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("found only %d Go files: the walk is wrong", len(out))
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// layer returns where a package stands in the import order, and whether it is bound by it.
func layer(pkg string) (int, bool) {
	switch first, rest, _ := strings.Cut(strings.TrimPrefix(pkg, module+"/"), "/"); {
	case first == "kit":
		return 0, true
	case first == "options":
		return 1, true
	case first == "controllers" && rest == "":
		return 3, true
	case first == "controllers":
		return 2, true
	case first == "app":
		return 4, true
	case first == "cmd":
		return 5, true
	}
	return 0, false
}

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range files(t) {
		pkg := module + "/" + f.dir
		at, bound := layer(pkg)
		if !bound {
			continue
		}
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if !strings.HasPrefix(path, module+"/") {
				continue
			}
			// The options of the HTTP server are values only; the server reads them.
			if to, ok := layer(path); ok && to > at {
				t.Errorf("%s imports %s: the order is kit, options, controllers/*, controllers, app, cmd", f.line(spec.Pos()), path)
			}
			if at == 2 && foreignController(f.dir, path) {
				t.Errorf("%s imports another controller, %s: what two need belongs in controllers/internal", f.line(spec.Pos()), path)
			}
		}
	}
}

// TestTheAPIStandsAlone keeps the types of our own API groups importable without anything else of this module.
func TestTheAPIStandsAlone(t *testing.T) {
	seen := false
	for _, f := range files(t) {
		if !strings.HasPrefix(f.dir, "api/") || f.test() {
			continue
		}
		seen = true
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") && !strings.HasPrefix(path, "k8s.io/apimachinery/") || first == module && !strings.HasPrefix(path, module+"/api/") {
				t.Errorf("%s imports %s: api imports only apimachinery", f.line(spec.Pos()), path)
			}
		}
	}
	if !seen {
		t.Error("found no file of the API: the walk is wrong")
	}
}

// foreignController reports whether a file of one controller imports another controller.
func foreignController(dir, path string) bool {
	own := strings.Split(dir, "/")
	other := strings.Split(strings.TrimPrefix(path, module+"/"), "/")
	return len(other) > 1 && other[0] == "controllers" && other[1] != "internal" && (len(own) < 2 || other[1] != own[1])
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	for _, f := range files(t) {
		if f.generated() {
			continue
		}
		if n := bytes.Count(f.data, []byte("\n")); n > maxFileLines && !f.test() {
			t.Errorf("%s has %d lines; at most %d", f.path, n, maxFileLines)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || f.test() {
				continue
			}
			if n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1; n > maxFuncLines {
				t.Errorf("%s: %s has %d lines; at most %d", f.line(fn.Pos()), fn.Name.Name, n, maxFuncLines)
			}
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	docs, seen := map[string]bool{}, map[string]bool{}
	for _, f := range files(t) {
		if f.test() || strings.HasPrefix(f.dir, "cmd/") {
			continue
		}
		seen[f.dir] = true
		if filepath.Base(f.path) == "doc.go" && f.ast.Doc != nil {
			docs[f.dir] = true
		}
	}
	for dir := range seen {
		if !docs[dir] {
			t.Errorf("%s has no doc.go with a package comment", dir)
		}
	}
}

// grabBags are names that say nothing about what is in a package.
var grabBags = []string{"util", "utils", "common", "helper", "helpers", "misc", "base"}

func TestNamesSayWhatIsInside(t *testing.T) {
	for _, f := range files(t) {
		if slices.Contains(grabBags, filepath.Base(f.dir)) || slices.Contains(grabBags, strings.TrimSuffix(filepath.Base(f.path), ".go")) {
			t.Errorf("%s: name it after what is in it", f.path)
		}
	}
}

func TestEveryFolderOfControllersIsAController(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "controllers"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(root, "controllers", "controllers.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "internal" || e.Name() == "testdata" {
			continue
		}
		dir := filepath.Join(root, "controllers", e.Name())
		for _, name := range []string{"doc.go", "controller.go", "reconcile.go"} {
			if !exists(filepath.Join(dir, name)) && !(name == "reconcile.go" && engineElsewhere(t, dir)) {
				t.Errorf("controllers/%s lacks %s", e.Name(), name)
			}
		}
		src, err := os.ReadFile(filepath.Join(dir, "controller.go"))
		if err == nil && (!bytes.Contains(src, []byte("func Descriptor(")) || !bytes.Contains(src, []byte("Name"))) {
			t.Errorf("controllers/%s/controller.go lacks Name or Descriptor", e.Name())
		}
		if !bytes.Contains(list, []byte(`"`+module+"/controllers/"+e.Name()+`"`)) {
			t.Errorf("controllers/%s is not in controllers.All", e.Name())
		}
		if matches, _ := filepath.Glob(filepath.Join(dir, "*_test.go")); len(matches) == 0 {
			t.Errorf("controllers/%s has no test", e.Name())
		}
	}
}

// engineElsewhere reports whether a controller is a thin folder around an engine in controllers/internal.
func engineElsewhere(t *testing.T, dir string) bool {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, "controller.go"))
	return err == nil && bytes.Contains(src, []byte(`"`+module+`/controllers/internal/replicas"`))
}

// forbidden are calls that the kit makes unnecessary in a controller.
var forbidden = map[string]string{
	"time.Sleep": "return kit.After", "time.NewTicker": "watch kit.Every", "time.Tick": "watch kit.Every",
	"time.AfterFunc": "return kit.After", "time.NewTimer": "return kit.After", "time.After": "return kit.After",
	"context.Background": "pass the context on", "context.TODO": "pass the context on", "os.Exit": "return an error",
}

func TestControllersLeaveLoopsAndTimeToTheKit(t *testing.T) {
	for _, f := range files(t) {
		if f.test() || !strings.HasPrefix(f.dir, "controllers") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a go statement; use kit.Batch, kit.Every or a further loop", f.line(n.Pos()))
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: an init function", f.line(n.Pos()))
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "panic" {
					t.Errorf("%s: a panic; return an error", f.line(n.Pos()))
				}
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok {
					if instead := forbidden[id.Name+"."+n.Sel.Name]; instead != "" {
						t.Errorf("%s: %s.%s; %s", f.line(n.Pos()), id.Name, n.Sel.Name, instead)
					}
				}
			}
			return true
		})
	}
}

// TestDependencies keeps heavy libraries out of the binary: the modules that it links are listed beside this test, and
// a new one is a decision.
func TestDependencies(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	got = slices.Compact(got)
	raw, err := os.ReadFile(dependencyTxt)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(raw))
	for _, m := range got {
		if !slices.Contains(want, m) {
			t.Errorf("the binary links the new module %s; if that is meant, add it to test/conventions/%s and say why in the commit", m, dependencyTxt)
		}
	}
	for _, m := range want {
		if !slices.Contains(got, m) {
			t.Errorf("the binary no longer links %s; remove it from test/conventions/%s", m, dependencyTxt)
		}
	}
}

// heavy are packages that drag much with them; see the weight budget in docs.
var heavy = []string{
	"k8s.io/apiserver/pkg/server/options", "k8s.io/apiserver/pkg/authentication/authenticatorfactory", "k8s.io/apiserver/pkg/authorization/authorizerfactory",
	"github.com/google/cel-go/cel", "google.golang.org/grpc",
}

func TestNoHeavyPackages(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	for _, p := range append(heavy, "k8s.io/kubernetes", "sigs.k8s.io/controller-runtime", "k8s.io/controller-manager") {
		for _, l := range linked {
			// The published configuration types refer to those of this module; they are types and nothing more.
			if strings.HasPrefix(l, "k8s.io/controller-manager/config") {
				continue
			}
			if l == p || strings.HasPrefix(l, p+"/") {
				t.Errorf("the binary links %s", l)
			}
		}
	}
}
