package binaries

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// place makes an executable file and returns its path.
func place(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// isolate gives a test a cache of its own and returns its folder for programs.
func isolate(t *testing.T) string {
	t.Helper()
	cache := t.TempDir()
	t.Setenv("ORRERY_CACHE", cache)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	return filepath.Join(cache, "orrery", "bin", Version)
}

// fakeGo puts a shell script in the go command's place; it sees the path that
// the real one would write to as $out.
func fakeGo(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	place(t, dir, "go", "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done; out=$2\n"+script+"\n")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestFindPrefersTheGivenFolderThenAssetsThenCache(t *testing.T) {
	cache, assets, given := isolate(t), t.TempDir(), t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	for _, dir := range []string{cache, assets, given} {
		place(t, dir, Etcd, "")
	}
	for _, dir := range []string{cache, assets} {
		place(t, dir, Kubectl, "")
	}
	place(t, cache, Kwok, "")
	found, missing, err := Find(Request{Names: []string{Etcd, Kubectl, Kwok, Scheduler}, BinDir: given})
	if err != nil {
		t.Fatal(err)
	}
	want := Set{
		Etcd: filepath.Join(given, Etcd), Kubectl: filepath.Join(assets, Kubectl), Kwok: filepath.Join(cache, Kwok),
	}
	for name, path := range want {
		if found[name] != path {
			t.Errorf("%s found at %q, want %q", name, found[name], path)
		}
	}
	if len(missing) != 1 || missing[0] != Scheduler {
		t.Errorf("missing %v, want only %s", missing, Scheduler)
	}
}

func TestFindIgnoresWhatCannotRun(t *testing.T) {
	cache := isolate(t)
	place(t, cache, Etcd, "")
	if err := os.Chmod(filepath.Join(cache, Etcd), 0o644); err != nil {
		t.Fatal(err)
	}
	if found, _, err := Find(Request{Names: []string{Etcd}}); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestFindRefusesUnknownProgramsAndFolders(t *testing.T) {
	isolate(t)
	if _, _, err := Find(Request{Names: []string{"kube-controller"}}); err == nil || !strings.Contains(err.Error(), Etcd) {
		t.Errorf("unknown program: %v, want an error that lists the known ones", err)
	}
	if _, _, err := Find(Request{BinDir: filepath.Join(t.TempDir(), "absent")}); err == nil {
		t.Error("a missing --bin-dir is accepted")
	}
}

func TestEveryProgramHasARecipeAndItsModule(t *testing.T) {
	for _, name := range Known() {
		r, ok := recipeFor(name)
		if !ok {
			t.Errorf("%s has no recipe", name)
			continue
		}
		mod, err := modules.ReadFile("modules/" + r.module + ".mod.txt")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(r.pkg, "k8s.io/kubernetes/") && !strings.Contains(string(mod), "k8s.io/kubernetes "+Version) {
			t.Errorf("module of %s does not pin %s", name, Version)
		}
	}
	if flags := versionFlags(Version); !strings.Contains(flags, "-X k8s.io/component-base/version.gitMinor=37 ") {
		t.Errorf("version flags are %s", flags)
	}
}

func TestEnsureBuildsOnceForConcurrentCallers(t *testing.T) {
	cache := isolate(t)
	runs := filepath.Join(t.TempDir(), "runs")
	fakeGo(t, "echo run >> "+runs+"; sleep 0.3; echo built > $out; chmod +x $out")
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			found, err := Ensure(context.Background(), Request{Names: []string{Etcd}})
			if err != nil || found[Etcd] != filepath.Join(cache, Etcd) {
				t.Errorf("ensure: %v, %v", found, err)
			}
		})
	}
	callers.Wait()
	text, err := os.ReadFile(runs)
	if err != nil || strings.Count(string(text), "run") != 1 {
		t.Errorf("compiler runs: %q, %v; want one", text, err)
	}
}

func TestTheSuiteIsBuiltOnlyByNameAndAsTests(t *testing.T) {
	cache := isolate(t)
	given := filepath.Join(t.TempDir(), "given")
	dir := t.TempDir()
	place(t, dir, "go", "#!/bin/sh\necho \"$*\" > "+given+"\nwhile [ \"$1\" != -o ]; do shift; done; echo built > $2; chmod +x $2\n")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if _, missing, err := Find(Request{}); err != nil || slices.Contains(missing, E2E) {
		t.Errorf("a cluster needs %v, %v", missing, err)
	}
	found, err := Ensure(context.Background(), Request{Names: []string{E2E}})
	if err != nil || found[E2E] != filepath.Join(cache, E2E) {
		t.Fatalf("ensure: %v, %v", found, err)
	}
	text, err := os.ReadFile(given)
	if err != nil || !strings.HasPrefix(string(text), "test -c ") || !strings.HasSuffix(string(text), " k8s.io/kubernetes/test/e2e\n") {
		t.Errorf("the go command was given %q, %v", text, err)
	}
}

func TestAFailedBuildShowsWhyAndLeavesNothing(t *testing.T) {
	cache := isolate(t)
	fakeGo(t, "echo half > $out; echo 'main.go:1: oh dear' >&2; exit 1")
	var log bytes.Buffer
	_, err := Ensure(context.Background(), Request{Names: []string{Etcd}, Log: &log})
	if err == nil || !strings.Contains(err.Error(), "oh dear") {
		t.Errorf("error is %v, want the compiler's words", err)
	}
	if !strings.Contains(log.String(), "[1/1] etcd") {
		t.Errorf("no progress in %q", log.String())
	}
	assertEmpty(t, cache)
}

func TestAnInterruptedBuildEndsSoonAndLeavesNothing(t *testing.T) {
	cache := isolate(t)
	fakeGo(t, "echo half > $out; sleep 60")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := Ensure(ctx, Request{Names: []string{Etcd}}); err == nil {
		t.Error("an interrupted build succeeds")
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %v to stop", took)
	}
	assertEmpty(t, cache)
}

func TestABuildRemovesWhatAKilledOneLeft(t *testing.T) {
	cache := isolate(t)
	place(t, cache, ".kwok.tmp", "half")
	fakeGo(t, "echo built > $out; chmod +x $out")
	if _, err := Ensure(context.Background(), Request{Names: []string{Etcd}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cache, ".kwok.tmp")); !os.IsNotExist(err) {
		t.Errorf("leftover: %v, want it gone", err)
	}
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s is left in the cache", entry.Name())
	}
}

func TestOlderReleasesOfTheAPIServer(t *testing.T) {
	for _, version := range Older() {
		r, ok := recipeFor(OlderAPIServer(version))
		if !ok || r.version != version || !strings.Contains(r.ldflags, "gitVersion="+version) {
			t.Errorf("%s: %+v, %t", version, r, ok)
		}
		if path := installed("/c", OlderAPIServer(version)); path != "/c/bin/"+version+"/kube-apiserver" {
			t.Errorf("%s is installed as %s", version, path)
		}
		text, err := modules.ReadFile("modules/kubernetes.mod.txt")
		if err != nil {
			t.Fatal(err)
		}
		mod := retarget(string(text), version)
		if strings.Contains(mod, strings.TrimPrefix(Version, "v1.")) || !strings.Contains(mod, "k8s.io/kubernetes "+version) ||
			!strings.Contains(mod, "k8s.io/api v0."+strings.TrimPrefix(version, "v1.")) {
			t.Errorf("go.mod for %s:\n%s", version, mod)
		}
	}
	for _, name := range []string{"kube-apiserver@v1.2.3", "etcd@v1.36.3", "@v1.36.3"} {
		if _, ok := recipeFor(name); ok {
			t.Errorf("%s is known", name)
		}
	}
}
