package deployment

import (
	"context"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/kittest"
)

// After an interruption of the watch, an object that replaced a deleted one of the same name appears as a change of it.
func TestWhichChangesOfAnOrphanWakeADeployment(t *testing.T) {
	orphan := func(change func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rs", UID: "a", Labels: map[string]string{"app": "web"}}}
		if change != nil {
			change(rs)
		}
		return rs
	}
	owned := orphan(func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = []metav1.OwnerReference{{Controller: new(true)}} })
	synctest.Test(t, func(t *testing.T) {
		var w watches
		api := kittest.New(t, newDeployment("web", 1))
		api.Run(t, func(cc kit.ControllerContext) (bool, error) {
			w.deployments = kit.Store(cc, bySelector())
			idle := kit.Func[kit.Key](func(context.Context, kit.Key) (kit.Result, error) { return kit.Done, nil })
			return true, kit.NewController(cc, idle).Watch(kit.For[appsv1.Deployment]()).Complete()
		})
		api.Settle()
		for name, c := range map[string]struct {
			old, new *appsv1.ReplicaSet
			wakes    bool
		}{
			"it comes":            {nil, orphan(nil), true},
			"it loses its owner":  {owned, orphan(nil), true},
			"it gets the labels":  {orphan(func(rs *appsv1.ReplicaSet) { rs.Labels = nil }), orphan(nil), true},
			"a namesake is there": {orphan(func(rs *appsv1.ReplicaSet) { rs.UID = "b" }), orphan(nil), true},
			"nothing that counts": {orphan(func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }), orphan(nil), false},
			"it goes":             {orphan(nil), nil, false},
			"it is being deleted": {owned, orphan(func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = &metav1.Time{} }), false},
		} {
			if got := len(w.adopters(c.old, c.new)) == 1; got != c.wakes {
				t.Errorf("%s: wakes %v, want %v", name, got, c.wakes)
			}
		}
	})
}
