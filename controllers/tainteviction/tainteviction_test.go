package tainteviction

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func taint(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

func tolerates(key string, seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
}

func pod(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

func TestTolerated(t *testing.T) {
	for _, tc := range []struct {
		name   string
		taints []corev1.Taint
		tols   []corev1.Toleration
		stay   time.Duration
		leaves bool
	}{
		{"no taint", nil, nil, 0, false},
		{"no toleration", []corev1.Taint{taint("a")}, nil, 0, true},
		{"for ever", []corev1.Taint{taint("a")}, []corev1.Toleration{tolerates("a")}, 0, false},
		{"for a time", []corev1.Taint{taint("a")}, []corev1.Toleration{tolerates("a", 30)}, 30 * time.Second, true},
		{"one of two is not tolerated", []corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{tolerates("a", 30)}, 0, true},
		{"the shortest counts", []corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{tolerates("a", 30), tolerates("b", 10)}, 10 * time.Second, true},
		{"for ever and for a time", []corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{tolerates("a"), tolerates("b", 10)}, 10 * time.Second, true},
		{"a negative time is none", []corev1.Taint{taint("a")}, []corev1.Toleration{tolerates("a", -5)}, 0, true},
		{"the longest time that can be written is for ever", []corev1.Taint{taint("a")}, []corev1.Toleration{tolerates("a", math.MaxInt64)}, 0, false},
		{"longer than times can be told is for ever", []corev1.Taint{taint("a")}, []corev1.Toleration{tolerates("a", 10_000_000_000)}, 0, false},
		{"a shorter time beside it counts", []corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{tolerates("a", math.MaxInt64), tolerates("b", 10)}, 10 * time.Second, true},
		{"the first that matches counts", []corev1.Taint{taint("a")}, []corev1.Toleration{tolerates("a", 60), tolerates("a", 5)}, time.Minute, true},
	} {
		stay, leaves := tolerated(pod("p", "n", tc.tols...), tc.taints, false)
		if stay != tc.stay || leaves != tc.leaves {
			t.Errorf("%s: stays %s, leaves %t; want %s, %t", tc.name, stay, leaves, tc.stay, tc.leaves)
		}
	}
}

// gone reports whether a pod has been deleted or is being deleted.
func gone(t *testing.T, api *kittest.API, name string) bool {
	t.Helper()
	p := pod(name, "")
	return !api.Get(t, p) || p.DeletionTimestamp != nil
}

func events(api *kittest.API) []string {
	var out []string
	for _, e := range api.Events() {
		out = append(out, e.String())
	}
	return out
}

func TestPodsGoWhenTheirTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n"), pod("none", "n"), pod("short", "n", tolerates("a", 10)), pod("ever", "n", tolerates("a")), pod("elsewhere", "m"), node("m"))
		api.Run(t, Descriptor())
		api.Settle()
		n := node("n")
		api.Get(t, n)
		n.Spec.Taints = []corev1.Taint{taint("a")}
		api.Update(t, n)
		api.Settle()
		if !gone(t, api, "none") || gone(t, api, "short") {
			t.Errorf("at once: none gone = %t, short gone = %t; want true, false", gone(t, api, "none"), gone(t, api, "short"))
		}
		time.Sleep(9 * time.Second)
		api.Settle()
		if gone(t, api, "short") {
			t.Error("short went before its time")
		}
		time.Sleep(2 * time.Second)
		api.Settle()
		if !gone(t, api, "short") || gone(t, api, "ever") || gone(t, api, "elsewhere") {
			t.Error("after 11 s short has to be gone, and the others have to stay")
		}
		if got := events(api); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "Marking for deletion Pod default/short") }) {
			t.Errorf("events = %v, want the deletion of short", got)
		}
	})
}

func TestAnEvictionIsCalledOffWhenTheTaintGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", taint("a")), pod("short", "n", tolerates("a", 10)))
		api.Run(t, Descriptor())
		api.Settle()
		time.Sleep(5 * time.Second)
		n := node("n")
		api.Get(t, n)
		n.Spec.Taints = nil
		api.Update(t, n)
		api.Settle()
		time.Sleep(time.Minute)
		api.Settle()
		if gone(t, api, "short") {
			t.Error("the taint went, and the pod was deleted all the same")
		}
		if got := events(api); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "Cancelling deletion of Pod default/short") }) {
			t.Errorf("events = %v, want the cancellation", got)
		}
	})
}

func TestASecondTaintDoesNotRestartTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n", taint("a")), pod("short", "n", tolerates("a", 10), tolerates("b", 10)))
		api.Run(t, Descriptor())
		api.Settle()
		time.Sleep(8 * time.Second)
		n := node("n")
		api.Get(t, n)
		n.Spec.Taints = []corev1.Taint{taint("b")}
		api.Update(t, n)
		api.Settle()
		time.Sleep(3 * time.Second)
		api.Settle()
		if !gone(t, api, "short") {
			t.Error("the time has to run on when one taint takes the place of another")
		}
	})
}

func TestPendingDeletionsOfPodsThatEndLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objs []*corev1.Pod
		api := kittest.New(t, node("n", taint("a")))
		api.Run(t, Descriptor())
		for i := range 200 {
			one := pod(fmt.Sprintf("p%d", i), "n", tolerates("a", 3600))
			objs = append(objs, one)
			api.Create(t, one)
		}
		api.Settle()
		for _, one := range objs {
			api.Remove(t, one)
		}
		api.Settle()
		n := 0
		for _, s := range events(api) {
			if strings.Contains(s, "Cancelling deletion") {
				n++
			}
		}
		if n != len(objs) {
			t.Errorf("%d of %d pending deletions were dropped", n, len(objs))
		}
	})
}
