package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runtime is a containerd of the test's own.
type runtime struct{ socket string }

// startRuntime starts containerd with a private socket and private folders, and stops it with the test.
func startRuntime(t *testing.T) runtime {
	t.Helper()
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install containerd runc)", program)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("containerd needs root")
	}
	dir := t.TempDir()
	r := runtime{socket: filepath.Join(dir, "c.sock")}
	configuration := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		filepath.Join(dir, "root"), filepath.Join(dir, "state"), r.socket)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command("containerd", "-c", filepath.Join(dir, "config.toml"))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("containerd: %s", log.Bytes())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out, err := r.try("version")
		if err == nil {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("containerd does not answer: %s", out)
		}
	}
}

func (r runtime) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", r.socket}, args...)...).CombinedOutput()
	return string(out), err
}

// ctr runs one command of containerd's client, and skips the test where the machine does not let root mount.
func (r runtime) ctr(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.try(args...)
	if err != nil && strings.Contains(out, "operation not permitted") {
		t.Skipf("this machine lets no containers run: %s", out)
	}
	if err != nil {
		t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestContainerdRunsTheImage imports an image and starts it by its entry point and by both of its names.
func TestContainerdRunsTheImage(t *testing.T) {
	r := startRuntime(t)
	dir := t.TempDir()
	source := "package main\n\nimport \"os\"\n\nfunc main() { println(os.Args[0], os.Getuid(), os.Getgid()) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", "program", "main.go")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	archive := filepath.Join(dir, "image.tar")
	var printed bytes.Buffer
	err := run([]string{"-binary", filepath.Join(dir, "program"), "-name", "orrery:v1", "-entry", "orrery,kube-controller-manager", "-o", archive}, &printed, &printed)
	if err != nil {
		t.Fatal(err)
	}
	name, digest, _ := strings.Cut(strings.TrimSpace(printed.String()), "@")
	r.ctr(t, "images", "import", "--snapshotter", "native", archive)
	if list := r.ctr(t, "images", "ls"); !strings.Contains(list, name+" ") || !strings.Contains(list, digest) {
		t.Fatalf("imported as\n%s\nwant %s with %s", list, name, digest)
	}
	for _, command := range [][]string{nil, {"kube-controller-manager"}, {"orrery"}} {
		want := "/usr/local/bin/orrery 65532 65532\n"
		if command != nil {
			want = command[0] + " 65532 65532\n"
		}
		args := append([]string{"run", "--rm", "--snapshotter", "native", name, "one"}, command...)
		if got := r.ctr(t, args...); got != want {
			t.Errorf("%v printed %q, want %q", command, got, want)
		}
	}
}
