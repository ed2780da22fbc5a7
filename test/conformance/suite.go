package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"orrery/hack/localcluster/cluster"
)

// suiteTimeout ends a pass that hangs. Single specs wait up to fifteen minutes.
const suiteTimeout = 3 * time.Hour

// runner runs specs on one cluster.
type runner struct {
	suite      cluster.Suite
	kubeconfig string
	dir        string
	procs      int
	nodes      int
}

// attempt runs the specs once: those that bear company in parallel, then the others alone.
func (r *runner) attempt(ctx context.Context, specs []spec, number int) ([]ginkgoSpec, error) {
	var parallel, serial []spec
	for _, s := range specs {
		if s.has("Serial") || s.has("Disruptive") {
			serial = append(serial, s)
			continue
		}
		parallel = append(parallel, s)
	}
	var done []ginkgoSpec
	for _, pass := range []struct {
		name  string
		specs []spec
		procs int
	}{{"parallel", parallel, r.procs}, {"serial", serial, 1}} {
		if len(pass.specs) == 0 {
			continue
		}
		begin := time.Now()
		name := fmt.Sprintf("%s-%d", pass.name, number)
		got, err := r.pass(ctx, name, pass.specs, min(pass.procs, len(pass.specs)))
		if err != nil {
			return nil, err
		}
		fmt.Printf("  %-12s %4d specs, %4d passed, %5.0f s\n", name, len(pass.specs), count(got, passed), time.Since(begin).Seconds())
		done = append(done, got...)
	}
	return done, nil
}

// pass calls Ginkgo once, for exactly these specs. That specs fail is no error.
func (r *runner) pass(ctx context.Context, name string, specs []spec, procs int) ([]ginkgoSpec, error) {
	report := name + ".json"
	args := []string{
		"run", "--no-color", "--silence-skips", "--procs=" + strconv.Itoa(procs), "--timeout=" + suiteTimeout.String(),
		"--output-dir=" + r.dir, "--json-report=" + report, "--label-filter=!Feature:OffByDefault",
	}
	for _, s := range specs {
		args = append(args, "--focus="+regexp.QuoteMeta(s.name)+"$")
	}
	args = append(args, r.suite.E2E, "--",
		"--kubeconfig="+r.kubeconfig, "--kubectl-path="+r.suite.Kubectl, "--provider=local",
		"--num-nodes="+strconv.Itoa(r.nodes), "--disable-log-dump", "--dump-logs-on-failure=false",
	)
	log, err := os.Create(filepath.Join(r.dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	temporary, err := os.MkdirTemp("", "orrery-conformance-")
	if err != nil {
		return nil, fmt.Errorf("make folder for the suite: %w", err)
	}
	defer os.RemoveAll(temporary) // specs leave files of their own
	cmd := exec.CommandContext(ctx, r.suite.Ginkgo, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, log, log
	// Ginkgo starts processes of its own: end them all, and give them time to clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what Ginkgo left, if it had to be killed
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("run Ginkgo: %w", err)
	}
	all, readErr := readReport(filepath.Join(r.dir, report))
	if readErr != nil {
		return nil, errors.Join(readErr, err, fmt.Errorf("see %s", log.Name()))
	}
	wanted := map[string]bool{}
	for _, s := range specs {
		wanted[s.name] = true
	}
	for _, g := range all {
		if g.LeafNodeType != "It" && g.State == "failed" {
			return nil, fmt.Errorf("%s failed: %s; see %s", g.LeafNodeType, g.Failure.Message, log.Name())
		}
	}
	return slices.DeleteFunc(all, func(g ginkgoSpec) bool { return g.LeafNodeType != "It" || !wanted[g.name()] }), nil
}

func count(specs []ginkgoSpec, state string) (n int) {
	for _, s := range specs {
		if s.State == state {
			n++
		}
	}
	return n
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
