package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"

	"orrery/kit/kittest"
	"orrery/options"
)

// candidate is a process that wants to lead.
type candidate struct {
	clients *clients
	stop    context.CancelFunc
	ended   chan error // what lead returned
}

// campaign starts lead with f.
func campaign(t *testing.T, api *kittest.API, f func(context.Context) error) *candidate {
	t.Helper()
	s := options.NewCMServer()
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{
		clients: &clients{root: api.Config("orrery"), fence: &fence{duration: s.LeaderElection.LeaseDuration.Duration}},
		stop:    cancel, ended: make(chan error, 1),
	}
	dog := leaderelection.NewLeaderHealthzAdaptor(watchdogSlack)
	go func() { c.ended <- lead(ctx, s, c.clients, record.NewFakeRecorder(100), dog, f) }()
	t.Cleanup(func() {
		cancel()
		api.Pass(time.Minute)
	})
	return c
}

// result returns what lead returned; it fails the test while lead still runs.
func (c *candidate) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	default:
		t.Fatal("lead still runs")
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
		if mine == "" || !c.clients.fence.open(time.Now()) {
			t.Fatalf("holder %q, fence open %t", mine, c.clients.fence.open(time.Now()))
		}
		second := campaign(t, api, func(ctx context.Context) error { <-ctx.Done(); return nil })
		api.Pass(time.Minute)
		c.stop()
		api.Pass(39 * time.Second)
		if holder(t, api) != mine || !c.clients.fence.open(time.Now()) {
			t.Error("the lease has to be kept, and writing allowed, until the loops have stopped")
		}
		api.Pass(1100 * time.Millisecond)
		if err := c.result(t); err != nil || c.clients.fence.open(time.Now()) {
			t.Errorf("lead = %v, fence open %t", err, c.clients.fence.open(time.Now()))
		}
		api.Pass(5 * time.Second)
		if h := holder(t, api); h == mine || h == "" || !second.clients.fence.open(time.Now()) {
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
		if err := c.result(t); !errors.Is(err, errLeaseLost) || c.clients.fence.open(time.Now()) {
			t.Errorf("lead = %v, fence open %t; want the lease lost and nothing written", err, c.clients.fence.open(time.Now()))
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
			t.Errorf("lead = %v, holder %q", err, holder(t, api))
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
			t.Errorf("lead = %v, holder %q, want %q", err, holder(t, api), first)
		}
	})
}

func TestWithoutElectionAllRunsAtOnce(t *testing.T) {
	s := options.NewCMServer()
	s.LeaderElection.LeaderElect = false
	ran := false
	err := lead(t.Context(), s, &clients{fence: &fence{}}, nil, nil, func(context.Context) error { ran = true; return nil })
	if err != nil || !ran {
		t.Errorf("lead = %v, ran %t", err, ran)
	}
}
