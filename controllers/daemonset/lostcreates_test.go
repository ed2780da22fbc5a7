package daemonset

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery/kit"
	"orrery/kit/kittest"
)

// The response to a create is lost, and the pod's event comes later than the kit waits for it.
func TestALostAnswerIsNoReasonForASecondPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newNodes(3)...)
		calls := newTally()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Resource.Resource != "pods" || r.User != Name {
				return nil
			}
			if n := calls.add(r.Verb); r.Verb == "create" && n == 1 {
				return &kittest.Reaction{Drop: true}
			}
			return nil
		})
		var r *reconciler
		api.RunIn(t, api.Context(Name, rules()...), func(cc kit.ControllerContext) (bool, error) {
			r = newReconciler(cc)
			return true, r.complete(cc, 1, nil)
		})
		api.Settle()
		api.DelayWatch(podKind, 30*time.Second)
		api.Create(t, newSet("web"))
		api.Pass(2 * time.Minute)
		if got := byNode(t, api); got != "n00: img:1, n01: img:1, n02: img:1" || calls.of("create") != 3 {
			t.Errorf("pods on %s after %d creates", got, calls.of("create"))
		}
		if calls.of("list") == 0 {
			t.Error("the server was not asked")
		}
		wantStatus(t, api, "web", counts{desired: 3, current: 3, updated: 3, unavailable: 3})

		// The cache has caught up: the next pod is created without asking the server.
		api.DelayWatch(podKind, 0)
		api.Create(t, newNode("n03"))
		api.Settle()
		api.Create(t, newNode("n04"))
		asked := calls.of("list")
		api.Settle()
		if calls.of("list") != asked || calls.of("create") != 5 || r.lostCreates.has(kit.KeyOf(newSet("web"))) {
			t.Errorf("%d lists, %d before; %d creates", calls.of("list"), asked, calls.of("create"))
		}
	})
}
