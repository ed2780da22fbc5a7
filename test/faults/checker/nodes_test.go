package checker

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newNode(status corev1.ConditionStatus, at time.Time, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: types.UID("node"), Labels: map[string]string{kubelet: "fake"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Time{Time: at}}}
	n.Spec.Taints = taints
	return n
}

func unreachable(at time.Time) corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: at}}
}

func lease(at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "node", UID: types.UID("lease")},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at}},
	}
}

// placed makes a pod on the node that tolerates its loss for some seconds, or for ever.
func placed(seconds *int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{NodeName: "node"}}
	p.Labels[OnlyEvicted] = "true"
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}}
	isReady(p, true)
	return p
}

// disrupted is a later state of a pod: it is told to go, and why.
func disrupted(p *corev1.Pod, reason string, at time.Time) *corev1.Pod {
	p = deleted(p)
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Time{Time: at},
	})
	return p
}

func TestHeartbeats(t *testing.T) {
	for name, tc := range map[string]struct {
		silent time.Duration
		want   []string
	}{
		"lost after its grace": {NodeGrace, nil},
		"lost too early":       {NodeGrace - 3*time.Second, []string{"heartbeat"}},
		"only just renewed":    {blind - time.Second, nil}, // who decided may not have seen it
	} {
		w := newWorld()
		renewed := w.now
		w.see(lease(renewed), newNode(corev1.ConditionTrue, renewed))
		w.now = renewed.Add(tc.silent)
		w.see(newNode(corev1.ConditionUnknown, w.now))
		w.expect(t, name, tc.want...)
	}
}

func TestTaints(t *testing.T) {
	w := newWorld()
	w.see(newNode(corev1.ConditionTrue, w.now), newNode(corev1.ConditionUnknown, w.now), newNode(corev1.ConditionTrue, w.now))
	w.see(newNode(corev1.ConditionTrue, w.now, unreachable(w.now)))
	w.expect(t, "it is ready again for a moment")
	w.see(newNode(corev1.ConditionTrue, w.now))
	w.pass(time.Minute)
	w.see(newNode(corev1.ConditionTrue, w.now, unreachable(w.now)))
	w.expect(t, "it is ready since long", "taint")
}

func TestEvictions(t *testing.T) {
	for name, tc := range map[string]struct {
		tolerates *int64
		lasts     time.Duration // how long the taint is there
		after     time.Duration // when the pod goes
		want      []string
	}{
		"in time":                        {new(int64(30)), time.Hour, 30 * time.Second, nil},
		"too early":                      {new(int64(30)), time.Hour, 27 * time.Second, []string{"toleration"}},
		"for ever":                       {nil, time.Hour, time.Minute, []string{"toleration"}},
		"as the taint goes":              {new(int64(30)), 28 * time.Second, 30 * time.Second, nil},
		"long after the taint has gone":  {new(int64(30)), 15 * time.Second, 30 * time.Second, []string{"toleration"}},
		"it does not tolerate the taint": {new(int64(0)), time.Hour, 0, nil},
	} {
		w := newWorld()
		p := placed(tc.tolerates)
		w.see(newNode(corev1.ConditionUnknown, w.now), p)
		begin := w.now
		w.see(newNode(corev1.ConditionUnknown, begin, unreachable(begin)))
		if w.now = begin.Add(tc.after); tc.lasts < tc.after {
			w.now = begin.Add(tc.lasts)
			w.see(newNode(corev1.ConditionTrue, w.now))
		}
		w.see(disrupted(p, "DeletionByTaintManager", begin.Add(tc.after)))
		w.expect(t, name, tc.want...)
	}
	w := newWorld()
	w.see(newNode(corev1.ConditionTrue, w.now), placed(nil), deleted(placed(nil)))
	w.expect(t, "nobody says why", "toleration")
}

func TestPodsOfNoNode(t *testing.T) {
	w := newWorld()
	n, p := newNode(corev1.ConditionTrue, w.now), placed(nil)
	n.CreationTimestamp = metav1.Time{Time: w.now}
	w.see(n, p)
	w.gone(n)
	if got := fmt.Sprint(w.c.Unsettled()); got != "[Pod ns/p]" {
		t.Errorf("the node is gone: unsettled is %s", got)
	}
	w.see(disrupted(p, "DeletionByPodGC", w.now))
	w.expect(t, "the node is gone")

	w = newWorld()
	w.see(n, p)
	w.see(disrupted(p, "DeletionByPodGC", w.now.Add(time.Minute)))
	w.expect(t, "the node is there", "pod of no node")
}

func TestSettledNodes(t *testing.T) {
	w := newWorld()
	n, p := newNode(corev1.ConditionTrue, w.now), placed(nil)
	w.see(n, p)
	expect := func(what, want string) {
		t.Helper()
		if got := fmt.Sprint(w.c.unsettledNodes()); got != want {
			t.Errorf("%s: unsettled is %s, want %s", what, got, want)
		}
	}
	expect("it is alive", "[]")
	n.Labels = nil
	w.see(n)
	expect("nobody keeps it alive", "[Node /node Pod ns/p]")
	n = newNode(corev1.ConditionUnknown, w.now, unreachable(w.now), corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
	n.Labels = nil
	w.see(n)
	expect("its pod is ready", "[Pod ns/p]")
	isReady(p, false)
	w.see(p)
	expect("all is known", "[]")
	p.Spec.Tolerations[0].TolerationSeconds = new(int64(5))
	w.see(p)
	expect("a pod should be gone", "[Pod ns/p]")
	w.see(deleted(p))
	expect("it is told to go", "[]")
	if got := w.c.Unsettled(); len(got) > 0 {
		t.Errorf("nobody can say that it has ended: unsettled is %v", got)
	}
}
