package command

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/internal/binaries"
	"orrery/hack/localcluster/internal/registry"
)

// playTool makes the test binary behave as the tool, so that tests can run it
// as a process of its own.
const playTool = "LOCALCLUSTER_TEST_PLAY_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(playTool) != "" {
		os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// tool returns a command that runs the tool in the test's own surroundings.
func tool(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), playTool+"=1")
	return cmd
}

// surroundings gives a test a registry and a folder for temporary files of its
// own, and returns the latter.
func surroundings(t *testing.T) string {
	t.Helper()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	return temporary
}

func requirePrograms(t *testing.T) {
	t.Helper()
	_, missing, err := binaries.Find(binaries.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 && os.Getenv("ORRERY_E2E") != "1" {
		t.Skipf("programs are not built: %s; run \"localcluster build\" or set ORRERY_E2E=1", strings.Join(missing, ", "))
	}
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tool(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func assertGone(t *testing.T, state cluster.State) {
	t.Helper()
	for _, component := range state.Components {
		if component.Alive() {
			t.Errorf("%s still runs", component.Name)
		}
	}
}

func readState(t *testing.T, name string) cluster.State {
	t.Helper()
	dir, err := registry.Dir(name)
	if err != nil {
		t.Fatal(err)
	}
	state, err := cluster.ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestAClusterInTheBackgroundIsFoundUsedAndStopped(t *testing.T) {
	requirePrograms(t)
	temporary := surroundings(t)
	mustRun(t, "up", "--detach", "--nodes=2", "--name=t")
	state := readState(t, "t")
	if out := mustRun(t, "status", "--name=t"); !strings.Contains(out, "kube-apiserver") || strings.Contains(out, "gone") {
		t.Errorf("status: %s", out)
	}
	if out := mustRun(t, "kubeconfig", "--name=t"); strings.TrimSpace(out) != state.Kubeconfig {
		t.Errorf("kubeconfig: %s, want %s", out, state.Kubeconfig)
	}
	if out := mustRun(t, "--name=t", "kubectl", "get", "nodes", "--no-headers"); strings.Count(out, " Ready ") != 2 {
		t.Errorf("kubectl get nodes: %s", out)
	}
	if out, err := tool("up", "--name=t").CombinedOutput(); err == nil || !strings.Contains(string(out), "running already") {
		t.Errorf("second cluster of one name: %v\n%s", err, out)
	}
	mustRun(t, "down", "--name=t")
	assertGone(t, state)
	assertEmpty(t, temporary)
}

func TestDownCleansUpAfterAKilledOwner(t *testing.T) {
	requirePrograms(t)
	temporary := surroundings(t)
	mustRun(t, "up", "--detach", "--nodes=0", "--name=t")
	state := readState(t, "t")
	if err := state.Owner.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "down", "--name=t")
	assertGone(t, state)
	assertEmpty(t, temporary)
}

func TestInterruptStopsAClusterInTheForeground(t *testing.T) {
	requirePrograms(t)
	temporary := surroundings(t)
	cmd := tool("up", "--nodes=1", "--name=t")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "is ready after") {
		t.Fatalf("first line %q, %v", line, err)
	}
	state := readState(t, "t")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v, want exit code 0", err)
	}
	assertGone(t, state)
	assertEmpty(t, temporary)
}

func TestInterruptDuringTheStartLeavesNothing(t *testing.T) {
	requirePrograms(t)
	temporary := surroundings(t)
	cmd := tool("up", "--name=t")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	for range 100 { // until it has begun
		if made, _ := filepath.Glob(filepath.Join(temporary, "*", "etcd")); len(made) > 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("after Ctrl-C: %v, want exit code 130", err)
	}
	assertEmpty(t, temporary)
}

func TestTheDemoRollsOutUnderUpstream(t *testing.T) {
	requirePrograms(t)
	temporary := surroundings(t)
	out := mustRun(t, "demo", "--controller-manager=upstream", "--once", "--name=t")
	for _, want := range []string{"deployment.apps/web created", "6 available; service: 6 endpoints", "rolled out in"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	assertEmpty(t, temporary)
}

func TestMistakesGetOneClearLine(t *testing.T) {
	surroundings(t)
	for want, args := range map[string][]string{
		"is not running":                       {"status"},
		`cluster "x" is not running`:           {"--name=x", "kubectl", "get", "pods"},
		"start it with":                        {"down"},
		"unknown flag":                         {"up", "--no-such-flag"},
		"unknown command":                      {"sideways"},
		"the path of its binary is not given":  {"up", "--controller-manager=orrery"},
		"must be upstream, orrery or none":     {"up", "--controller-manager=other"},
		"nothing rolls out without":            {"demo", "--controller-manager=none"},
		"must be lower case letters":           {"up", "--name=A/B"},
		"unknown program \"cri-tools\"; known": {"build", "cri-tools"},
		"use binaries of /does/not/exist: not": {"up", "--bin-dir=/does/not/exist"},
	} {
		var out, log bytes.Buffer
		code := Run(args, &out, &log)
		text := log.String()
		if code != 1 || !strings.Contains(text, want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: code %d, %q; want one line with %q", args, code, text, want)
		}
	}
}

func TestRolloutCountsOnlyWhatIsCurrentAndReady(t *testing.T) {
	wanted, yes, no := int32(2), true, false
	current := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
	stale := current
	stale.ObservedGeneration = 1
	slice := func(ready ...*bool) discoveryv1.EndpointSlice {
		var s discoveryv1.EndpointSlice
		for _, r := range ready {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: r}})
		}
		return s
	}
	for name, test := range map[string]struct {
		status   appsv1.DeploymentStatus
		slices   []discoveryv1.EndpointSlice
		complete bool
	}{
		"complete":            {current, []discoveryv1.EndpointSlice{slice(&yes), slice(&yes)}, true},
		"unknown means ready": {current, []discoveryv1.EndpointSlice{slice(nil, &yes)}, true},
		"endpoint not ready":  {current, []discoveryv1.EndpointSlice{slice(&yes, &no)}, false},
		"no endpoints":        {current, nil, false},
		"status is stale":     {stale, []discoveryv1.EndpointSlice{slice(&yes, &yes)}, false},
	} {
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Spec:       appsv1.DeploymentSpec{Replicas: &wanted},
			Status:     test.status,
		}
		if got := rolloutOf(deployment, test.slices); got.complete() != test.complete {
			t.Errorf("%s: %v, complete %v, want %v", name, got, got.complete(), test.complete)
		}
	}
}
