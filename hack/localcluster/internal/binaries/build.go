package binaries

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// modules holds the go.mod and go.sum of every build under names that the go
// command does not take for modules of this repository.
//
//go:embed modules/*.txt
var modules embed.FS

// tailLines is how much of a failed compiler run is shown.
const tailLines = 30

// build compiles the named programs into the cache, one after the other: the go
// command uses all processors by itself.
func build(ctx context.Context, cache string, names []string, log io.Writer) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("build %s: the go command is needed once: %w", strings.Join(names, ", "), err)
	}
	release, err := lockFile(ctx, filepath.Join(cache, "build", Version+".lock"), log)
	if err != nil {
		return err
	}
	defer release()

	dir := binDir(cache)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder for binaries: %w", err)
	}
	if err := removeLeftovers(dir); err != nil {
		return err
	}
	// Whoever held the lock before may have built some of them meanwhile.
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return executable(installed(cache, name))
	})
	if len(names) > 0 {
		fmt.Fprintf(log, "building %s into %s (once; several minutes)\n", strings.Join(names, ", "), filepath.Dir(dir))
	}
	for i, name := range names {
		begin := time.Now()
		stop := progress(log, fmt.Sprintf("[%d/%d] %s", i+1, len(names), name), begin)
		err := compile(ctx, cache, name)
		stop()
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "[%d/%d] %s done in %.0f s\n", i+1, len(names), name, time.Since(begin).Seconds())
	}
	return nil
}

// compile builds one program under a temporary name and renames it when whole.
func compile(ctx context.Context, cache, name string) error {
	recipe, _ := recipeFor(name)
	dir, err := writeModule(cache, recipe)
	if err != nil {
		return err
	}
	final := installed(cache, name)
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return fmt.Errorf("make folder for binaries: %w", err)
	}
	temporary := filepath.Join(binDir(cache), "."+name+".tmp")
	defer os.Remove(temporary)

	var output bytes.Buffer
	verb := []string{"build"}
	if recipe.test {
		verb = []string{"test", "-c"}
	}
	mode := "-mod=readonly"
	if recipe.version != "" {
		mode = "-mod=mod" // its go.sum is made now, and checked by the checksum database
	}
	cmd := exec.CommandContext(ctx, "go", append(verb, mode, "-trimpath",
		"-ldflags", recipe.ldflags, "-o", temporary, recipe.pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOOS=", "GOARCH=")
	cmd.Stdout, cmd.Stderr = &output, &output
	// The compilers are children of the go command: end the whole group. The
	// death signal follows the thread that starts the child, so keep it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build %s: %w", name, context.Cause(ctx))
		}
		return fmt.Errorf("build %s: %w\n%s", name, err, lastLines(output.String(), tailLines))
	}
	if err := os.Rename(temporary, final); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}

// writeModule lays out the build module and returns its folder.
func writeModule(cache string, r recipe) (string, error) {
	dir := filepath.Join(cache, "build", cmp.Or(r.version, Version), r.module)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make build folder: %w", err)
	}
	for _, file := range []string{"mod", "sum"} {
		text, err := modules.ReadFile("modules/" + r.module + "." + file + ".txt")
		if err != nil {
			return "", fmt.Errorf("read build module: %w", err)
		}
		if r.version != "" {
			if file == "sum" {
				continue
			}
			text = []byte(retarget(string(text), r.version))
		}
		if err := os.WriteFile(filepath.Join(dir, "go."+file), text, 0o644); err != nil {
			return "", fmt.Errorf("write build module: %w", err)
		}
	}
	return dir, nil
}

// retarget makes the go.mod of another release of that of Version. Its staging modules are v0.x.y where it is v1.x.y.
func retarget(mod, version string) string {
	staging := func(v string) string { return " v0." + strings.TrimPrefix(v, "v1.") }
	mod = strings.ReplaceAll(mod, " "+Version, " "+version)
	return strings.ReplaceAll(mod, staging(Version), staging(version))
}

// removeLeftovers deletes what an interrupted build left; the caller holds the lock.
func removeLeftovers(dir string) error {
	leftovers, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil {
		return err
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove leftover: %w", err)
		}
	}
	return nil
}

// progress prints one line now and one every 15 seconds, until stop is called.
func progress(log io.Writer, what string, begin time.Time) (stop func()) {
	fmt.Fprintln(log, what)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				fmt.Fprintf(log, "%s %.0f s ...\n", what, time.Since(begin).Seconds())
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
