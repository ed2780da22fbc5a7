package scenarios

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// nodeGrace is longer than the ten seconds between two renewals of a node's lease.
const nodeGrace = 20 * time.Second

// TestNodes has nodes that are added, are cordoned, stop sending heartbeats and recover. There are three in each zone, so
// that the loss of one does not count as a disruption of the zone.
func TestNodes(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{
		Nodes: 9, ControllerManager: cluster.Orrery,
		CMArgs: []string{"-v=2", "--node-monitor-period=1s", fmt.Sprintf("--node-monitor-grace-period=%v", nodeGrace)},
	})
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	ns := e.namespace(t, "nodes")

	t.Run("a new node gets its first pod at once", func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: podSpec("fake:1")}
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-10"}
		must(e.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		added := must(e.AddNodes(t.Context(), 1))(t)
		ready := time.Now()
		if added[0] != "node-10" {
			t.Fatalf("the new node is %s", added[0])
		}
		eventually(t, "pod runs", func() error { return e.phase(t, ns, "first", corev1.PodRunning) })
		if took := time.Since(ready); took > 2*time.Second*slowness(t) {
			t.Errorf("the pod ran %v after the node was ready", took)
		}
	})
	t.Run("a cordoned node has the taint", func(t *testing.T) {
		e.kubectl(t, "cordon", "node-2")
		eventually(t, "taint", func() error {
			return e.tainted(t, "node-2", corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, true)
		})
		e.kubectl(t, "uncordon", "node-2")
		eventually(t, "no taint", func() error {
			return e.tainted(t, "node-2", corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, false)
		})
	})
	t.Run("a silent node is given up and taken back", func(t *testing.T) { silentNode(t, e, ns, "node-1") })
	t.Run("an impatient pod leaves a tainted node in its time", func(t *testing.T) {
		seconds := int64(3)
		e.podOn(t, ns, "quick", "node-3")
		e.podOn(t, ns, "patient", "node-3", corev1.Toleration{Key: "test", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		e.podOn(t, ns, "unmoved", "node-3", corev1.Toleration{Key: "test", Operator: corev1.TolerationOpExists})
		begin := time.Now()
		e.kubectl(t, "taint", "node", "node-3", "test=yes:NoExecute")
		e.gone(t, "pods", ns, "quick")
		e.gone(t, "pods", ns, "patient")
		if stayed := time.Since(begin); stayed < 3*time.Second {
			t.Errorf("a pod that tolerates the taint for 3 s left after %v", stayed)
		}
		if err := e.phase(t, ns, "unmoved", corev1.PodRunning); err != nil {
			t.Error(err)
		}
	})
}

func silentNode(t *testing.T, e *env, ns, node string) {
	seconds := int64(2)
	e.podOn(t, ns, "leaves", node, corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	e.podOn(t, ns, "stays", node) // for the five minutes that admission gives every pod
	if err := e.StopNodeHeartbeat(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node is Unknown", func() error {
		condition := e.ready(t, node)
		return errors.Join(differ("status", condition.Status, corev1.ConditionUnknown), differ("reason", condition.Reason, "NodeStatusUnknown"))
	})
	lease := must(e.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), node, metav1.GetOptions{}))(t)
	if silent := e.ready(t, node).LastTransitionTime.Sub(lease.Spec.RenewTime.Time); silent < nodeGrace-time.Second {
		t.Errorf("given up after %v of silence, want at least %v", silent, nodeGrace)
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		eventually(t, "unreachable "+string(effect), func() error { return e.tainted(t, node, corev1.TaintNodeUnreachable, effect, true) })
	}
	eventually(t, "pods are not ready", func() error {
		pod := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "stays", metav1.GetOptions{}))(t)
		return differ("ready", podCondition(pod, corev1.PodReady), corev1.ConditionFalse)
	})
	eventually(t, "the impatient pod is evicted", func() error {
		pod := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "leaves", metav1.GetOptions{}))(t)
		return errors.Join(differ("being deleted", pod.DeletionTimestamp != nil, true),
			differ("DisruptionTarget", podCondition(pod, corev1.DisruptionTarget), corev1.ConditionTrue))
	})
	if pod := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "stays", metav1.GetOptions{}))(t); pod.DeletionTimestamp != nil {
		t.Error("the patient pod is evicted too")
	}

	if err := e.StartNodeHeartbeat(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node is ready", func() error { return differ("status", e.ready(t, node).Status, corev1.ConditionTrue) })
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		eventually(t, "no longer unreachable", func() error { return e.tainted(t, node, corev1.TaintNodeUnreachable, effect, false) })
	}
	must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "stays", metav1.GetOptions{}))(t)
}

// podOn makes a pod on a node and waits until it runs.
func (e *env) podOn(t *testing.T, namespace, name, node string, tolerations ...corev1.Toleration) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec("fake:1")}
	pod.Spec.NodeName, pod.Spec.Tolerations = node, tolerations
	must(e.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	eventually(t, "pod "+name+" runs", func() error { return e.phase(t, namespace, name, corev1.PodRunning) })
}

func (e *env) phase(t *testing.T, namespace, name string, want corev1.PodPhase) error {
	pod, err := e.Client().CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		t.Fatalf("pod %s is gone", name)
	}
	if err != nil {
		return err
	}
	return differ("phase", pod.Status.Phase, want)
}

func (e *env) ready(t *testing.T, node string) corev1.NodeCondition {
	t.Helper()
	for _, c := range must(e.Client().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}))(t).Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	t.Fatalf("node %s has no condition Ready", node)
	return corev1.NodeCondition{}
}

func (e *env) tainted(t *testing.T, node, key string, effect corev1.TaintEffect, want bool) error {
	found := false
	taints := must(e.Client().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}))(t).Spec.Taints
	for _, taint := range taints {
		found = found || taint.Key == key && taint.Effect == effect
	}
	if found != want {
		return fmt.Errorf("taints are %v", taints)
	}
	return nil
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}
