package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/internal/binaries"
)

// testTimeout is for a machine on which everything else runs too.
const testTimeout = 2 * time.Minute

// requirePrograms skips a test that needs programs nobody has built yet, unless
// ORRERY_E2E=1 asks for building them.
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

// startForTest starts a cluster that is stopped with the test, and checks that
// nothing of it stays.
func startForTest(t *testing.T, options Options) *Cluster {
	t.Helper()
	requirePrograms(t)
	t.Setenv("TMPDIR", t.TempDir())
	options.Log = t.Output()
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		processes := append(c.ControllerManagers(), c.Kwok(), c.Scheduler(), c.APIServer(), c.Etcd())
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		for _, p := range processes {
			if p != nil && p.Running() {
				t.Errorf("%s still runs", p.Name())
			}
		}
		if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder of the cluster: %v, want it gone", err)
		}
	})
	return c
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "fake"}}},
			},
		},
	}
}

func waitAvailable(ctx context.Context, t *testing.T, c *Cluster, name string) {
	t.Helper()
	err := poll(ctx, name, c.APIServer(), func(ctx context.Context) error {
		d, err := c.Client().AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != *d.Spec.Replicas {
			err = fmt.Errorf("%d of %d pods available", d.Status.AvailableReplicas, *d.Spec.Replicas)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestADeploymentRollsOutUnderUpstream(t *testing.T) {
	c := startForTest(t, Options{Name: "test", Nodes: 3, ControllerManager: Upstream})
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := c.WaitUsable(ctx); err != nil {
		t.Fatal(err)
	}
	create := func(name string, replicas int32) {
		t.Helper()
		_, err := c.Client().AppsV1().Deployments("default").Create(ctx, deployment(name, replicas), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	create("first", 10)
	waitAvailable(ctx, t, c, "first")

	kubectl, err := c.Kubectl(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, kubectl, "--kubeconfig", c.Kubeconfig(), "get", "pods", "-o", "name").CombinedOutput()
	if err != nil || strings.Count(string(out), "pod/first-") != 10 {
		t.Errorf("kubectl: %v\n%s", err, out)
	}

	// The server crashes in the middle of a rollout, which goes on all the same.
	create("second", 60)
	time.Sleep(300 * time.Millisecond)
	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := c.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	waitAvailable(ctx, t, c, "second")
	if err := errors.Join(c.PauseEtcd(), c.ContinueEtcd()); err != nil {
		t.Fatal(err)
	}
	create("third", 5)
	waitAvailable(ctx, t, c, "third")

	usage, err := c.ControllerManagers()[0].Usage()
	if err != nil || usage.CPU == 0 || usage.RSS == 0 {
		t.Errorf("usage of the controller manager: %+v, %v", usage, err)
	}
	select {
	case failure := <-c.Failures():
		t.Errorf("a component failed: %v", failure)
	default:
	}
}

func TestAClusterWithoutControllerManagerIsReady(t *testing.T) {
	c := startForTest(t, Options{Nodes: 2, Untaint: true})
	ctx := t.Context()
	added, err := c.AddNodes(ctx, 2)
	if err != nil || len(added) != 2 {
		t.Fatalf("add nodes: %v, %v", added, err)
	}
	unplayed, err := c.AddUnplayedNode(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StopNodeHeartbeat(ctx, added[0]); err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 5 {
		t.Fatalf("%d nodes, %v; want 5", len(nodes.Items), err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !nodeReady(node) {
			t.Errorf("node %s is not Ready", node.Name)
		}
		played := node.Name != unplayed && node.Name != added[0]
		if _, marked := node.Labels[managedLabel]; marked != played {
			t.Errorf("node %s: played by kwok %v, want %v", node.Name, marked, played)
		}
	}
	if revived, err := c.ReviveScheduler(); revived || err != nil {
		t.Errorf("a scheduler that runs was started again: %v", err)
	}
	if err := c.Scheduler().Kill(); err != nil {
		t.Fatal(err)
	}
	if revived, err := c.ReviveScheduler(); !revived || err != nil || !c.Scheduler().Running() {
		t.Errorf("the scheduler was not started again: %v", err)
	}
	state, err := ReadState(c.Dir())
	if err != nil || len(state.Components) != 4 || !state.Owner.Alive() {
		t.Errorf("state %+v, %v; want four components", state, err)
	}
}

func TestAStartThatFailsLeavesNothingAndSaysWhy(t *testing.T) {
	requirePrograms(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	bad := t.TempDir()
	script := "#!/bin/sh\necho 'no space on the moon' >&2\nexit 4\n"
	for _, name := range []string{binaries.Etcd, binaries.APIServer, binaries.Kwok, binaries.ControllerManager} {
		if err := os.WriteFile(filepath.Join(bad, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Start(t.Context(), Options{Nodes: 1, ControllerManager: Upstream, BinDir: bad})
		if err == nil || !strings.Contains(err.Error(), "no space on the moon") || !strings.Contains(err.Error(), name+" ended: exit status 4") {
			t.Errorf("bad %s: %v; want its exit code and the end of its log", name, err)
		}
		if err := os.Remove(filepath.Join(bad, name)); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
			t.Errorf("bad %s: %v is left", name, left)
		}
	}
}

// readyStatus returns the status of a node's Ready condition.
func readyStatus(ctx context.Context, c *Cluster, name string) (corev1.ConditionStatus, error) {
	node, err := c.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status, nil
		}
	}
	return "", nil
}

// TestALostNodeIsNoticedAndComesBack takes half a minute: a kubelet renews its
// lease every ten seconds, so it cannot be missed sooner.
func TestALostNodeIsNoticedAndComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	c := startForTest(t, Options{Nodes: 2, ControllerManager: Upstream, CMArgs: []string{
		"--node-monitor-grace-period=14s", "--node-monitor-period=1s", "--controllers=node-lifecycle-controller",
	}})
	waitStatus := func(want corev1.ConditionStatus) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		err := poll(ctx, "node-1", c.APIServer(), func(ctx context.Context) error {
			status, err := readyStatus(ctx, c, "node-1")
			if err == nil && status != want {
				err = fmt.Errorf("Ready is %s, want %s", status, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.StopNodeHeartbeat(t.Context(), "node-1"); err != nil {
		t.Fatal(err)
	}
	waitStatus(corev1.ConditionUnknown)
	if status, err := readyStatus(t.Context(), c, "node-2"); status != corev1.ConditionTrue {
		t.Errorf("the other node: Ready is %s, %v", status, err)
	}
	if err := c.StartNodeHeartbeat(t.Context(), "node-1"); err != nil {
		t.Fatal(err)
	}
	waitStatus(corev1.ConditionTrue)
}
