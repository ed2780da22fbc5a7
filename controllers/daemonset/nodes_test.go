package daemonset

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// startTelling runs the loop for nodes, and records the DaemonSets that it requeues.
func startTelling(t *testing.T, api *kittest.API, woken *[]string) (r *reconciler) {
	api.RunIn(t, api.Context(Name, rules()...), func(cc kit.ControllerContext) (bool, error) {
		r = newReconciler(cc)
		if err := r.complete(cc, 1, nil); err != nil {
			return false, err
		}
		r.wake = kit.NewTrigger[kit.Key]()
		told := kit.Func[kit.Key](func(_ context.Context, key kit.Key) (kit.Result, error) {
			*woken = append(*woken, key.Name)
			return kit.Done, nil
		})
		return true, kit.NewController(cc, told).Loop("told").Watch(r.wake.Source()).Complete()
	})
	return r
}

// The DaemonSet may have been reconciled in between, with the node as it was then.
func TestANodeThatChangesThereAndBackIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, append(newNodes(2), newSet("one"))...)
		var woken []string
		r := startTelling(t, api, &woken)
		api.Settle()
		woken = nil
		node := newNode("n01")
		tainted := newNode("n01", taint("k", corev1.TaintEffectNoSchedule))
		r.changes.note(node, tainted)
		r.changes.note(tainted, node)
		if _, err := r.reconcileNode(t.Context(), "n01"); err != nil {
			t.Fatal(err)
		}
		api.Settle()
		if !slices.Equal(woken, []string{"one"}) {
			t.Errorf("woken are %q", woken)
		}
	})
}

func TestANodeChangeTouchesOnlyTheDaemonSetsItConcerns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sets []client.Object
		for i := range 20 {
			sets = append(sets, newSet(fmt.Sprintf("s%02d", i), func(s *appsv1.DaemonSet) {
				s.Spec.Template.Spec.NodeSelector = map[string]string{"for": s.Name}
			}))
		}
		api := kittest.New(t, append(newNodes(3), sets...)...)
		var woken []string
		r := startTelling(t, api, &woken)
		api.Settle()
		woken = nil
		changeNode(t, api, "n01", func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning })
		changeNode(t, api, "n01", func(n *corev1.Node) { n.Labels["more"] = "x" })
		api.Settle()
		if len(woken) != 0 {
			t.Errorf("changes that concern nobody woke %v", woken)
		}
		changeNode(t, api, "n01", func(n *corev1.Node) { n.Labels["for"] = "s07" })
		api.Settle()
		if slices.Sort(woken); !slices.Equal(slices.Compact(woken), []string{"s07"}) {
			t.Errorf("woken are %v, want s07", woken)
		}
		if len(r.changes.before) != 0 {
			t.Errorf("nodes are held: %v", r.changes.before)
		}
	})
}
