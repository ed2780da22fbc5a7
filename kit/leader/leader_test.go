package leader

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"orrery/kit/kittest"
)

// candidate is a process that wants to lead.
type candidate struct {
	fence *Fence
	stop  context.CancelFunc
	ended chan error // what Run returned
}

// The timings of a controller manager.
const lease, renew, retry = 15 * time.Second, 10 * time.Second, 2 * time.Second

func newIdentity(t *testing.T) string {
	t.Helper()
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// campaign starts an election with f.
func campaign(t *testing.T, api *kittest.API, f func(context.Context) error) *candidate {
	t.Helper()
	return campaignAs(t, api, newIdentity(t), nil, f)
}

// campaignAs starts an election with f, as a candidate among which the API server chooses, or as none.
func campaignAs(t *testing.T, api *kittest.API, identity string, as *Candidate, f func(context.Context) error) *candidate {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{fence: NewFence(lease), stop: cancel, ended: make(chan error, 1)}
	lock, err := NewLock(api.Config("orrery"), identity, LockKind, "kube-system", "kube-controller-manager", renew, record.NewFakeRecorder(100))
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{
		Lock: lock, Name: "kube-controller-manager", LeaseDuration: lease, RenewDeadline: renew, RetryPeriod: retry,
		Watchdog: leaderelection.NewLeaderHealthzAdaptor(WatchdogSlack), Fence: c.fence, Candidate: as,
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { c.ended <- e.Run(ctx, f) }()
	t.Cleanup(func() {
		cancel()
		api.Pass(time.Minute)
	})
	return c
}

// result returns what Run returned; it fails the test while the election still runs.
func (c *candidate) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	default:
		t.Fatal("the election still runs")
		return nil
	}
}

func holder(t *testing.T, api *kittest.API) string {
	t.Helper()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"}}
	if !api.Get(t, l) || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func TestTheLeaseIsGivenBackWhenAllHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		c := campaign(t, api, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(40 * time.Second) // longer than a lease: it has to be renewed while the loops stop
			return nil
		})
		api.Pass(time.Minute)
		mine := holder(t, api)
		if mine == "" || !c.fence.Open(time.Now()) {
			t.Fatalf("holder %q, fence open %t", mine, c.fence.Open(time.Now()))
		}
		second := campaign(t, api, func(ctx context.Context) error { <-ctx.Done(); return nil })
		api.Pass(time.Minute)
		c.stop()
		api.Pass(39 * time.Second)
		if holder(t, api) != mine || !c.fence.Open(time.Now()) {
			t.Error("the lease has to be kept, and writing allowed, until the loops have stopped")
		}
		api.Pass(1100 * time.Millisecond)
		if err := c.result(t); err != nil || c.fence.Open(time.Now()) {
			t.Errorf("Run = %v, fence open %t", err, c.fence.Open(time.Now()))
		}
		api.Pass(5 * time.Second)
		if h := holder(t, api); h == mine || h == "" || !second.fence.Open(time.Now()) {
			t.Errorf("holder = %q five seconds after the release, want the other", h)
		}
	})
}

func TestALostLeaseEndsTheProcessAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		c := campaign(t, api, func(ctx context.Context) error { <-ctx.Done(); return nil })
		api.Pass(time.Minute)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" {
				return &kittest.Reaction{Err: errors.New("no route")}
			}
			return nil
		})
		api.Pass(16 * time.Second)
		if err := c.result(t); !errors.Is(err, ErrLost) || c.fence.Open(time.Now()) {
			t.Errorf("Run = %v, fence open %t; want the lease lost and nothing written", err, c.fence.Open(time.Now()))
		}
	})
}

// The release is under way for so long that the lease expires, and another process takes it.
func TestALeaseThatSomebodyElseTookIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		c := campaign(t, api, untilTold)
		api.Pass(time.Minute)
		other := "other"
		take := sync.OnceFunc(func() {
			l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"}}
			if !api.Get(t, l) {
				t.Error("no lease")
			}
			l.Spec.HolderIdentity = &other
			api.Update(t, l)
		})
		c.stop()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" {
				take()
			}
			return nil
		})
		api.Pass(time.Minute)
		if err := c.result(t); err != nil || holder(t, api) != other {
			t.Errorf("Run = %v, holder %q; want the lease left to the other", err, holder(t, api))
		}
	})
}

func TestAnErrorOfTheStartGivesTheLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		boom := errors.New("boom")
		c := campaign(t, api, func(context.Context) error { return boom })
		api.Pass(10 * time.Second)
		if err := c.result(t); !errors.Is(err, boom) || holder(t, api) != "" {
			t.Errorf("Run = %v, holder %q", err, holder(t, api))
		}
	})
}

func TestAStandbyStopsCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		campaign(t, api, func(ctx context.Context) error { <-ctx.Done(); return nil })
		api.Pass(10 * time.Second)
		first := holder(t, api)
		standby := campaign(t, api, func(context.Context) error { t.Error("two lead"); return nil })
		api.Pass(time.Minute)
		standby.stop()
		api.Pass(5 * time.Second)
		if err := standby.result(t); err != nil || holder(t, api) != first {
			t.Errorf("Run = %v, holder %q, want %q", err, holder(t, api), first)
		}
	})
}

func TestTimingsThatCannotWorkAreRefused(t *testing.T) {
	fence := NewFence(lease)
	lock := &noLock{}
	for _, tc := range []struct{ lease, renew, retry time.Duration }{
		{10 * time.Second, 10 * time.Second, time.Second}, {15 * time.Second, 2 * time.Second, 2 * time.Second}, {},
	} {
		_, err := New(Config{Lock: lock, Name: "x", LeaseDuration: tc.lease, RenewDeadline: tc.renew, RetryPeriod: tc.retry, Fence: fence})
		if err == nil || !strings.Contains(err.Error(), "leader election") {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestALeaseThatIsKeptStaysWithItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		lock, err := NewLock(api.Config("orrery"), newIdentity(t), LockKind, "kube-system", "kube-controller-manager", renew, record.NewFakeRecorder(100))
		if err != nil {
			t.Fatal(err)
		}
		fence := NewFence(lease)
		e, err := New(Config{Lock: lock, Name: "x", LeaseDuration: lease, RenewDeadline: renew, RetryPeriod: retry, KeepOnStop: true, Fence: fence})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := e.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil {
			t.Fatal(err)
		}
		if holder(t, api) != lock.Identity() || fence.Open(time.Now()) {
			t.Errorf("holder %q, fence open %t; want it kept, and nothing written any more", holder(t, api), fence.Open(time.Now()))
		}
	})
}

// busy is a limit that other requests have used up.
type busy struct{ flowcontrol.RateLimiter }

func (busy) Accept()                        { select {} }
func (busy) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestTheLeaseIsNotRenewedBehindOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		config := api.Config("orrery")
		config.RateLimiter = busy{}
		lock, err := NewLock(config, "me", LockKind, "kube-system", "lock", renew, record.NewFakeRecorder(1))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), renew)
		defer cancel()
		if err := lock.Create(ctx, holding); err != nil {
			t.Error(err)
		}
		if w, err := lock.(watchable).watch(ctx); err != nil {
			t.Error(err)
		} else {
			w.Stop()
		}
	})
}
