package leader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// standing is a process that the API server may name leader.
type standing struct {
	*candidate
	entry *Candidate
	name  string
}

// stand starts a process that does f when it is named leader.
func stand(t *testing.T, api *kittest.API, f func(context.Context) error) *standing {
	t.Helper()
	s := &standing{name: newIdentity(t)}
	var err error
	s.entry, err = NewCandidate(api.Config("orrery"), s.name, "kube-system", "kube-controller-manager", Versions{"1.37.0", "1.36.0"})
	if err != nil {
		t.Fatal(err)
	}
	s.candidate = campaignAs(t, api, s.name, s.entry, f)
	return s
}

// published returns the entry as the API has it, or nil.
func (s *standing) published(t *testing.T, api *kittest.API) *coordinationv1beta1.LeaseCandidate {
	t.Helper()
	c := &coordinationv1beta1.LeaseCandidate{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: s.name}}
	if !api.Get(t, c) {
		return nil
	}
	return c
}

// withdrawn reports whether the entry counts no more.
func (s *standing) withdrawn(t *testing.T, api *kittest.API) bool {
	t.Helper()
	c := s.published(t, api)
	return c != nil && c.Spec.PingTime == nil && time.Since(c.Spec.RenewTime.Time) > 30*time.Minute
}

// coordinate changes the lease as the API server does, and makes it where there is none.
func coordinate(t *testing.T, api *kittest.API, change func(*coordinationv1.LeaseSpec)) {
	t.Helper()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"}}
	has := api.Get(t, l)
	now, seconds, strategy := metav1.NowMicro(), int32(5), coordinationv1.OldestEmulationVersion
	l.Spec.Strategy = &strategy
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &now, &seconds
	}
	change(&l.Spec)
	if has {
		api.Update(t, l)
	} else {
		api.Create(t, l)
	}
}

func name(who *standing) func(*coordinationv1.LeaseSpec) {
	return func(s *coordinationv1.LeaseSpec) { s.HolderIdentity, s.PreferredHolder = &who.name, nil }
}

func prefer(who *standing) func(*coordinationv1.LeaseSpec) {
	return func(s *coordinationv1.LeaseSpec) { s.PreferredHolder = &who.name }
}

func TestWhoIsNamedLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		a, b := stand(t, api, untilTold), stand(t, api, untilTold)
		api.Pass(time.Minute)
		if n, _ := leading(a.candidate, b.candidate); n != 0 || holder(t, api) != "" {
			t.Fatalf("%d lead and %q holds the lease before anybody was named", n, holder(t, api))
		}
		c := b.published(t, api)
		if c == nil || c.Spec.LeaseName != "kube-controller-manager" || c.Spec.BinaryVersion != "1.37.0" || c.Spec.EmulationVersion != "1.36.0" ||
			c.Spec.Strategy != coordinationv1.OldestEmulationVersion || c.Spec.RenewTime == nil || !b.entry.Published() {
			t.Fatalf("published %+v", c)
		}
		coordinate(t, api, name(b))
		api.Pass(50 * time.Millisecond)
		if n, leader := leading(a.candidate, b.candidate); n != 1 || leader != b.candidate {
			t.Fatalf("%d lead 50 ms after the second was named", n)
		}
		api.Pass(time.Minute)
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"}}
		api.Get(t, l)
		if *l.Spec.HolderIdentity != b.name || *l.Spec.LeaseDurationSeconds != 15 || l.Spec.Strategy == nil || l.Spec.AcquireTime.IsZero() ||
			time.Since(l.Spec.RenewTime.Time) > retry+time.Second {
			t.Errorf("after a minute the lease is %+v", l.Spec)
		}
		if n, leader := leading(a.candidate, b.candidate); n != 1 || leader != b.candidate {
			t.Errorf("%d lead after a minute", n)
		}
	})
}

// TestWhoIsNamedAndReplacedDoesNotBegin: the name of another is in the lease already when it is looked at.
func TestWhoIsNamedAndReplacedDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		a := stand(t, api, func(context.Context) error { t.Error("leads"); return nil })
		b := stand(t, api, untilTold)
		api.Pass(time.Second)
		coordinate(t, api, func(s *coordinationv1.LeaseSpec) { name(a)(s); prefer(b)(s) })
		api.Pass(10 * time.Second)
		coordinate(t, api, name(b))
		api.Pass(50 * time.Millisecond)
		if !b.fence.Open(time.Now()) {
			t.Error("the other one does not lead")
		}
	})
}

// TestWhoIsNamedTriesAgainAtOnce: the API server has written into the lease between the look at it and taking it.
func TestWhoIsNamedTriesAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		a := stand(t, api, untilTold)
		api.Pass(time.Second)
		refused := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" && r.Resource.Resource == "leases" && refused == 0 {
				refused++
				return kittest.Refuse(409, "the object has been modified")
			}
			return nil
		})
		coordinate(t, api, name(a))
		api.Pass(50 * time.Millisecond)
		if refused != 1 || !a.fence.Open(time.Now()) {
			t.Errorf("%d refused, leads: %t", refused, a.fence.Open(time.Now()))
		}
	})
}

func TestACandidateAnswersAndStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		a := stand(t, api, untilTold)
		api.Pass(30 * time.Second)
		ping := metav1.NewMicroTime(time.Now())
		c := a.published(t, api)
		c.Spec.PingTime = &ping
		api.Update(t, c)
		api.Pass(50 * time.Millisecond)
		if c = a.published(t, api); c.Spec.RenewTime.Before(&ping) {
			t.Errorf("asked at %v, last answer at %v", ping, c.Spec.RenewTime)
		}
		version := c.ResourceVersion
		api.Pass(4 * time.Minute)
		if c = a.published(t, api); c.ResourceVersion != version {
			t.Error("written although nobody asked")
		}
		api.Pass(2 * time.Minute)
		if c = a.published(t, api); time.Since(c.Spec.RenewTime.Time) > 2*time.Minute {
			t.Errorf("last renewed %v ago", time.Since(c.Spec.RenewTime.Time))
		}
		api.Delete(t, c)
		api.Pass(2 * time.Second)
		if a.published(t, api) == nil {
			t.Error("not there again after it was deleted")
		}
		api.BreakWatch(coordinationv1beta1.SchemeGroupVersion.WithKind("LeaseCandidate"))
		api.Pass(2 * time.Second)
		c, ping = a.published(t, api), metav1.NewMicroTime(time.Now())
		c.Spec.PingTime = &ping
		api.Update(t, c)
		api.Pass(2 * time.Second)
		if c = a.published(t, api); c.Spec.RenewTime.Before(&ping) {
			t.Error("no answer after the watch was cut")
		}
	})
}

// TestTheEndOfATerm: the work ends in order, then the candidate is withdrawn, then the lease is given back.
func TestTheEndOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		told := time.Time{}
		a := stand(t, api, func(ctx context.Context) error {
			<-ctx.Done()
			told = time.Now()
			time.Sleep(3 * time.Second)
			return nil
		})
		b := stand(t, api, untilTold)
		api.Pass(time.Second)
		coordinate(t, api, name(a))
		api.Pass(time.Minute)
		api.TakeWrites()
		coordinate(t, api, prefer(b))
		api.Pass(retry + 100*time.Millisecond)
		if told.IsZero() || !a.fence.Open(time.Now()) || holder(t, api) != a.name {
			t.Fatalf("told at %v, fence open %t, holder %q, want to be told, and to hold the lease while the work ends", told, a.fence.Open(time.Now()), holder(t, api))
		}
		api.Pass(3 * time.Second)
		if err := a.result(t); !errors.Is(err, ErrTermEnded) || a.fence.Open(time.Now()) || holder(t, api) != "" || !a.withdrawn(t, api) {
			t.Errorf("Run = %v, fence open %t, holder %q, withdrawn %t", err, a.fence.Open(time.Now()), holder(t, api), a.withdrawn(t, api))
		}
		writes := api.TakeWrites()
		last := writes[len(writes)-2:]
		if !strings.Contains(last[0], "leasecandidates") || !strings.Contains(last[1], "leases") {
			t.Errorf("last writes %q, want the candidate before the lease", last)
		}
		coordinate(t, api, name(b))
		api.Pass(50 * time.Millisecond)
		if !b.fence.Open(time.Now()) {
			t.Error("the other one does not lead")
		}
	})
}

// TestATermEndsAlsoWhereTheWorkDoesNot: the lease is given up by then, and nothing is written.
func TestATermEndsAlsoWhereTheWorkDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		done := make(chan struct{})
		defer close(done)
		a, b := stand(t, api, func(context.Context) error { <-done; return nil }), stand(t, api, untilTold)
		api.Pass(time.Second)
		coordinate(t, api, name(a))
		api.Pass(10 * time.Second)
		coordinate(t, api, prefer(b))
		api.Pass(retry + renew + time.Second)
		if err := a.result(t); !errors.Is(err, ErrLost) || a.fence.Open(time.Now()) || holder(t, api) != "" {
			t.Errorf("Run = %v, fence open %t, holder %q", err, a.fence.Open(time.Now()), holder(t, api))
		}
	})
}

func TestACandidateThatStopsIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		a, b := stand(t, api, untilTold), stand(t, api, untilTold)
		api.Pass(time.Second)
		coordinate(t, api, name(a))
		api.Pass(10 * time.Second)
		for _, c := range []*standing{b, a} {
			c.stop()
			api.Pass(50 * time.Millisecond)
			if err := c.result(t); err != nil || !c.withdrawn(t, api) {
				t.Errorf("Run = %v, withdrawn %t", err, c.withdrawn(t, api))
			}
		}
		if holder(t, api) != "" {
			t.Errorf("%q holds the lease", holder(t, api))
		}
	})
}

// TestALeaseThatWasTakenAwayEndsTheProcessAtOnce: by hand, or by an API server whose clock goes before.
func TestALeaseThatWasTakenAwayEndsTheProcessAtOnce(t *testing.T) {
	for what, coordinated := range map[string]bool{"first come": false, "coordinated": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t)
				var c *candidate
				if coordinated {
					s := stand(t, api, untilTold)
					api.Pass(time.Second)
					coordinate(t, api, name(s))
					c = s.candidate
				} else {
					c = campaign(t, api, untilTold)
				}
				api.Pass(10 * time.Second)
				if !c.fence.Open(time.Now()) {
					t.Fatal("does not lead")
				}
				thief := "thief"
				coordinate(t, api, func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = &thief })
				api.Pass(2*retry + 100*time.Millisecond)
				if err := c.result(t); !errors.Is(err, ErrLost) || c.fence.Open(time.Now()) || holder(t, api) != thief {
					t.Errorf("Run = %v, fence open %t, holder %q", err, c.fence.Open(time.Now()), holder(t, api))
				}
			})
		})
	}
}

// TestAServerWithoutCandidatesNamesNobody, until it is one with.
func TestAServerWithoutCandidatesNamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Resource.Resource == "leasecandidates" {
				return kittest.Refuse(404, "the server could not find the requested resource")
			}
			return nil
		})
		a := stand(t, api, untilTold)
		api.Pass(time.Hour)
		if a.entry.Published() || a.fence.Open(time.Now()) || slices.ContainsFunc(api.Writes(), func(w string) bool { return strings.Contains(w, "leases") }) {
			t.Errorf("published %t, leads %t, writes %q", a.entry.Published(), a.fence.Open(time.Now()), api.Writes())
		}
		api.Unreact()
		api.Pass(candidateWait + time.Second)
		if !a.entry.Published() {
			t.Error("not published once the server takes it")
		}
	})
}
