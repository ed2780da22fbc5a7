package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/kittest"
)

var leaseKind = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}

// untilTold leads until it is told to stop.
func untilTold(ctx context.Context) error { <-ctx.Done(); return nil }

// leading returns the candidates that may write now.
func leading(of ...*candidate) (n int, leader *candidate) {
	for _, c := range of {
		if c.fence.Open(time.Now()) {
			n, leader = n+1, c
		}
	}
	return n, leader
}

func TestAReleasedLeaseIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		all := []*candidate{campaign(t, api, untilTold), campaign(t, api, untilTold), campaign(t, api, untilTold)}
		api.Pass(30 * time.Second)
		// One after another, without a pause in which one that lost a race could wait until it tries again.
		for range 2 {
			n, first := leading(all...)
			if n != 1 {
				t.Fatalf("%d lead", n)
			}
			first.stop()
			api.Pass(50 * time.Millisecond)
			if err := first.result(t); err != nil {
				t.Errorf("the old one ended with %v", err)
			}
			if n, next := leading(all...); n != 1 || next == first {
				t.Fatalf("%d lead 50 ms after the lease was given back", n)
			}
		}
	})
}

func TestTheLeaseSaysWhenItWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		first := campaign(t, api, untilTold)
		api.Pass(time.Second)
		campaign(t, api, untilTold)
		api.Pass(time.Minute)
		first.stop()
		api.Pass(50 * time.Millisecond)
		taken := time.Now()
		api.Pass(10 * time.Second) // some renewals
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"}}
		if !api.Get(t, l) {
			t.Fatal("no lease")
		}
		if got := taken.Sub(l.Spec.AcquireTime.Time); got < 0 || got > time.Second {
			t.Errorf("taken %v before it was", got)
		}
		if age := time.Since(l.Spec.RenewTime.Time); age > retry {
			t.Errorf("renewed %v ago", age)
		}
		if *l.Spec.LeaseTransitions != 1 {
			t.Errorf("%d transitions, want that from the first to the second", *l.Spec.LeaseTransitions)
		}
	})
}

// TestALeaseOfADeadLeaderIsTakenWhenItHasRunOut: not before, and at most a moment later.
func TestALeaseOfADeadLeaderIsTakenWhenItHasRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		who, seconds := "dead", int32(lease/time.Second)
		now := metav1.NowMicro()
		l := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now},
		}
		api.Create(t, l)
		standby := campaign(t, api, untilTold)
		for range 10 { // it lives, for 20 s
			api.Pass(2 * time.Second)
			now = metav1.NowMicro()
			l.Spec.RenewTime = &now
			api.Update(t, l)
		}
		api.Pass(lease - 100*time.Millisecond)
		if standby.fence.Open(time.Now()) {
			t.Error("taken before it had run out")
		}
		api.Pass(200 * time.Millisecond)
		if !standby.fence.Open(time.Now()) {
			t.Error("not taken when it had run out")
		}
	})
}

func TestAStandbyWithoutAWatchLooks(t *testing.T) {
	for name, trouble := range map[string]func(*kittest.API){
		"silent": func(api *kittest.API) { api.FreezeWatch(leaseKind, true) },
		"broken": func(api *kittest.API) { api.BreakWatch(leaseKind) },
		"forbidden": func(api *kittest.API) {
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if r.Verb == "watch" {
					return kittest.Refuse(403, "no")
				}
				return nil
			})
			api.BreakWatch(leaseKind)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t)
				first := campaign(t, api, untilTold)
				api.Pass(time.Second)
				second := campaign(t, api, untilTold)
				api.Pass(30 * time.Second)
				trouble(api)
				api.Pass(30 * time.Second)
				if n, leader := leading(first, second); n != 1 || leader != first {
					t.Fatalf("%d lead, the first is one of them: %t", n, leader == first)
				}
				first.stop()
				api.Pass(4 * retry)
				if !second.fence.Open(time.Now()) {
					t.Errorf("not taken %v after it was given back", 4*retry)
				}
			})
		})
	}
}

// TestAStandbyThatWatchesAsksForNothing: what it costs the server is one watch.
func TestAStandbyThatWatchesAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		campaign(t, api, untilTold)
		api.Pass(time.Second)
		campaign(t, api, untilTold)
		api.Pass(10 * time.Second)
		gets := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "get" || r.Verb == "watch" {
				gets++
			}
			return nil
		})
		api.Pass(10 * time.Minute)
		if gets != 0 {
			t.Errorf("%d requests in ten minutes", gets)
		}
	})
}

// A lease that somebody deletes is made anew by its holder with the next renewal, and until then nobody else leads.
func TestALeaseThatIsDeletedStaysWithItsHolder(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, time.Second, 1900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			api := kittest.New(t)
			first := campaign(t, api, untilTold)
			api.Pass(time.Second)
			second := campaign(t, api, untilTold)
			api.Pass(30*time.Second + after)
			api.Remove(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"}})
			for range 100 {
				api.Pass(100 * time.Millisecond)
				if n, who := leading(first, second); n != 1 || who != first {
					t.Fatalf("deleted %v into a period: %d lead", after, n)
				}
			}
			first.stop()
			api.Pass(50 * time.Millisecond)
			if n, who := leading(first, second); n != 1 || who != second {
				t.Error("not taken when it was given back")
			}
		})
	}
}

func TestADeletedLeaseOfADeadLeaderIsTakenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		who, seconds, now := "dead", int32(lease/time.Second), metav1.NowMicro()
		l := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now},
		}
		api.Create(t, l)
		standby := campaign(t, api, untilTold)
		api.Pass(5 * time.Second)
		api.Remove(t, l)
		api.Pass(2 * retry)
		if !standby.fence.Open(time.Now()) {
			t.Errorf("nobody leads %v after the lease was deleted", 2*retry)
		}
	})
}
