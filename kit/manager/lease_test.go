package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
	"orrery/kit/kittest"
	"orrery/kit/leader"
	"orrery/kit/manager"
)

// secondHolder writes who holds the lease "second", for an hour; with an empty name it only reads.
func secondHolder(t *testing.T, api *kittest.API, who *string) string {
	t.Helper()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "second"}}
	has := api.Get(t, l)
	if who != nil {
		now, seconds := metav1.NowMicro(), int32(3600)
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: who, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now}
		if has {
			api.Update(t, l)
		} else {
			api.Create(t, l)
		}
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// withSecond returns a manager with a part under its own lease and one under a second, which it waits for with the first.
func withSecond(t *testing.T, api *kittest.API, d *diary, begin func(*manager.Lease) error) (*manager.Manager, *manager.Lease) {
	t.Helper()
	m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}})
	var l *manager.Lease
	l, err := m.NewLease("second", func(context.Context) error {
		d.add("begins")
		return errors.Join(begin(l), l.Add(part{"moving", time.Second, d}))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []manager.Runnable{part{"staying", 2 * time.Second, d}, l} {
		if err := m.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	return m, l
}

func nothing(*manager.Lease) error { return nil }

func TestAFurtherLeaseIsTakenAfterTheFirstAndGivenBackBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		stranger, nobody := "stranger", ""
		secondHolder(t, api, &stranger)
		m, l := withSecond(t, api, d, nothing)
		p := start(t, api, m)
		api.Pass(time.Minute)
		if got, want := d.take(), []string{"staying runs"}; !slices.Equal(got, want) || l.Fence().Open(time.Now()) {
			t.Errorf("while a stranger has the lease: %q, fence open %t", got, l.Fence().Open(time.Now()))
		}
		if f := m.Leadership().Further; len(f) != 1 || f[0].Leading || f[0].Holder != stranger || f[0].Lease != "kube-system/second" {
			t.Errorf("leadership is %+v", m.Leadership())
		}
		secondHolder(t, api, &nobody)
		api.Pass(50 * time.Millisecond)
		if got, want := d.take(), []string{"begins", "moving runs"}; !slices.Equal(got, want) || !l.Fence().Open(time.Now()) {
			t.Errorf("once it is free: %q, fence open %t", got, l.Fence().Open(time.Now()))
		}
		if a, b := holder(t, api), secondHolder(t, api, nil); a == "" || a != b || !m.Leadership().Further[0].Leading {
			t.Errorf("held by %q and %q", a, b)
		}
		api.Pass(time.Minute)
		api.TakeWrites()
		p.stop()
		api.Pass(1500 * time.Millisecond)
		if secondHolder(t, api, nil) != "" || holder(t, api) == "" || l.Fence().Open(time.Now()) || !m.Fence().Open(time.Now()) {
			t.Errorf("while the first still stops: holders %q and %q", holder(t, api), secondHolder(t, api, nil))
		}
		api.Pass(time.Minute)
		if err := p.result(t); err != nil || holder(t, api) != "" {
			t.Errorf("Start = %v, holder %q", err, holder(t, api))
		}
		if got, want := d.take(), []string{"moving ended", "staying ended"}; !slices.Equal(got, want) {
			t.Errorf("stop: %q\nwant %q", got, want)
		}
	})
}

func TestAStandbyDoesNotAskForTheFurtherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		first := start(t, api, newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}}))
		api.Pass(time.Second)
		m, _ := withSecond(t, api, d, nothing)
		start(t, api, m)
		api.Pass(time.Minute)
		if got := d.take(); len(got) > 0 || secondHolder(t, api, nil) != "" {
			t.Fatalf("a standby: %q, holder %q", got, secondHolder(t, api, nil))
		}
		first.stop()
		api.Pass(time.Second)
		if got := d.take(); len(got) != 3 || secondHolder(t, api, nil) != holder(t, api) {
			t.Errorf("with the first lease: %q, holder %q", got, secondHolder(t, api, nil))
		}
	})
}

func TestALostFurtherLeaseEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		m, l := withSecond(t, api, d, nothing)
		p := start(t, api, m)
		api.Pass(time.Minute)
		d.take()
		thief := "thief"
		secondHolder(t, api, &thief)
		api.Pass(10 * time.Second)
		if err := p.result(t); !errors.Is(err, leader.ErrLost) || !strings.Contains(err.Error(), "second") {
			t.Errorf("Start = %v", err)
		}
		if l.Fence().Open(time.Now()) || holder(t, api) != "" || secondHolder(t, api, nil) != thief {
			t.Errorf("fence open %t, holders %q and %q", l.Fence().Open(time.Now()), holder(t, api), secondHolder(t, api, nil))
		}
	})
}

func TestAnErrorOfTheBeginningEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		boom := errors.New("boom")
		m, _ := withSecond(t, api, d, func(*manager.Lease) error { return boom })
		p := start(t, api, m)
		api.Pass(time.Minute)
		if err := p.result(t); !errors.Is(err, boom) || holder(t, api) != "" || secondHolder(t, api, nil) != "" {
			t.Errorf("Start = %v, holders %q and %q", err, holder(t, api), secondHolder(t, api, nil))
		}
	})
}

// TestWritesUnderAFurtherLeasePassItsFence: that of the first does not open it.
func TestWritesUnderAFurtherLeasePassItsFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		m, l := withSecond(t, api, d, nothing)
		cc := l.Context("moving")
		write := func(name string) error {
			_, err := client.Create(t.Context(), cc.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}})
			return err
		}
		stranger, nobody := "stranger", ""
		secondHolder(t, api, &stranger)
		start(t, api, m)
		api.Pass(time.Minute)
		if err := write("a"); !errors.Is(err, leader.ErrFenced) || !m.Fence().Open(time.Now()) {
			t.Errorf("without the second lease: %v", err)
		}
		secondHolder(t, api, &nobody)
		api.Pass(time.Second)
		if err := write("b"); err != nil {
			t.Errorf("with it: %v", err)
		}
	})
}

func TestAFurtherLeaseNeedsAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, kittest.New(t), manager.Options{})
		defer m.Close()
		if _, err := m.NewLease("second", func(context.Context) error { return nil }); err == nil {
			t.Error("no error")
		}
	})
}
