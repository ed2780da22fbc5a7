package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
	"orrery/kit/leader"
	"orrery/kit/manager"
)

// diary is what happened, in order.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines
	d.lines = nil
	return l
}

// part is a Runnable that notes its beginning and its end, which comes some time after it was told to end.
type part struct {
	name   string
	linger time.Duration
	diary  *diary
}

func (p part) Name() string { return p.name }

func (p part) Run(ctx context.Context) error {
	p.diary.add("%s runs", p.name)
	<-ctx.Done()
	time.Sleep(p.linger)
	p.diary.add("%s ended", p.name)
	return nil
}

// process is a manager that runs in the background.
type process struct {
	*manager.Manager
	stop  context.CancelFunc
	ended chan error
}

func newManager(t *testing.T, api *kittest.API, o manager.Options) *manager.Manager {
	t.Helper()
	if o.Name == "" {
		o.Name = "test"
	}
	if o.Election.Enabled {
		o.Election.Namespace = "kube-system"
	}
	m, err := manager.New(api.Config(o.Name), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func start(t *testing.T, api *kittest.API, m *manager.Manager) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{m, cancel, make(chan error, 1)}
	go func() { p.ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		api.Pass(2 * time.Minute)
	})
	return p
}

// result returns what Start returned; it fails the test while the process still runs.
func (p *process) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	default:
		t.Fatal("the process still runs")
		return nil
	}
}

func holder(t *testing.T, api *kittest.API) string {
	t.Helper()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "test"}}
	if !api.Get(t, l) || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// add adds one part to each stage.
func (d *diary) addTo(t *testing.T, m *manager.Manager, linger time.Duration) {
	t.Helper()
	for _, err := range []error{
		m.Add(part{"leading", linger, d}), m.Add(manager.WithoutLease(part{"free", linger, d})), m.AddServer(part{"server", linger, d}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Before(func(context.Context) error {
		time.Sleep(time.Second) // so that what was started before has begun
		d.add("condition holds")
		return nil
	})
}

func TestStagesStartInOrderAndStopInReverse(t *testing.T) {
	for _, elect := range []bool{false, true} {
		t.Run(fmt.Sprintf("election %t", elect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, d := kittest.New(t), &diary{}
				m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: elect}})
				d.addTo(t, m, time.Second)
				p := start(t, api, m)
				api.Pass(time.Minute)
				got, want := d.take(), []string{"server runs", "condition holds", "free runs", "leading runs"}
				if !elect && len(got) > 2 {
					slices.Sort(got[2:]) // both were started at once
				}
				if !slices.Equal(got, want) {
					t.Errorf("start: %q\nwant %q", got, want)
				}
				if (holder(t, api) != "") != elect {
					t.Errorf("the lease is held by %q", holder(t, api))
				}
				p.stop()
				api.Pass(time.Minute)
				if err := p.result(t); err != nil {
					t.Errorf("Start = %v", err)
				}
				if got, want := d.take(), []string{"leading ended", "free ended", "server ended"}; !slices.Equal(got, want) {
					t.Errorf("stop: %q\nwant %q", got, want)
				}
				if h := holder(t, api); h != "" || m.Fence().Open(time.Now()) {
					t.Errorf("after the end the lease is held by %q, fence open %t", h, m.Fence().Open(time.Now()))
				}
				if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
					t.Errorf("a second start: %v", err)
				}
				if err := m.Add(part{"late", 0, d}); err == nil || !strings.Contains(err.Error(), "late") {
					t.Errorf("adding after the end: %v", err)
				}
			})
		})
	}
}

func TestAStandbyRunsWhatNeedsNoLeaseAndTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, first, second := kittest.New(t), &diary{}, &diary{}
		o := manager.Options{Election: manager.Election{Enabled: true}}
		a, b := newManager(t, api, o), newManager(t, api, o)
		first.addTo(t, a, 0)
		second.addTo(t, b, 0)
		leading := start(t, api, a)
		api.Pass(10 * time.Second)
		was := holder(t, api)
		standby := start(t, api, b)
		api.Pass(time.Minute)
		if got, want := second.take(), []string{"server runs", "condition holds", "free runs"}; !slices.Equal(got, want) {
			t.Errorf("standby: %q\nwant %q", got, want)
		}
		leading.stop()
		api.Pass(5 * time.Second)
		if got := second.take(); !slices.Equal(got, []string{"leading runs"}) || holder(t, api) == was {
			t.Errorf("five seconds after the leader ended: %q", got)
		}
		standby.stop()
		api.Pass(time.Minute)
		if err := errors.Join(leading.result(t), standby.result(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestAStandbyThatIsStoppedNeverLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		o := manager.Options{Election: manager.Election{Enabled: true}}
		start(t, api, newManager(t, api, o))
		api.Pass(10 * time.Second)
		was := holder(t, api)
		m := newManager(t, api, o)
		d.addTo(t, m, 0)
		standby := start(t, api, m)
		api.Pass(time.Minute)
		d.take()
		standby.stop()
		api.Pass(5 * time.Second)
		if err := standby.result(t); err != nil || holder(t, api) != was {
			t.Errorf("Start = %v, holder %q, want %q", err, holder(t, api), was)
		}
		if got, want := d.take(), []string{"free ended", "server ended"}; !slices.Equal(got, want) {
			t.Errorf("stop: %q\nwant %q", got, want)
		}
	})
}

func TestTheFirstErrorStopsEverythingInOrder(t *testing.T) {
	boom := errors.New("boom")
	fails := func(name string, after time.Duration) manager.Runnable {
		return manager.Func(name, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return errors.New("late error")
			case <-time.After(after):
			}
			return boom
		})
	}
	for name, add := range map[string]func(*manager.Manager) error{
		"with the lease": func(m *manager.Manager) error { return m.Add(fails("faulty", time.Minute)) },
		"without":        func(m *manager.Manager) error { return m.Add(manager.WithoutLease(fails("faulty", time.Minute))) },
		"a server":       func(m *manager.Manager) error { return m.AddServer(fails("faulty", time.Minute)) },
		"a panic": func(m *manager.Manager) error {
			return m.Add(manager.Func("faulty", func(context.Context) error { time.Sleep(time.Minute); panic(boom) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, d := kittest.New(t), &diary{}
				m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}})
				d.addTo(t, m, time.Second)
				if err := errors.Join(add(m), m.Add(fails("second", time.Hour))); err != nil {
					t.Fatal(err)
				}
				p := start(t, api, m)
				api.Pass(50 * time.Second)
				d.take()
				api.Pass(time.Minute)
				err := p.result(t)
				if err == nil || !strings.Contains(err.Error(), "faulty: ") || !strings.Contains(err.Error(), "boom") || strings.Contains(err.Error(), "late error") {
					t.Errorf("Start = %v", err)
				}
				if got, want := d.take(), []string{"leading ended", "free ended", "server ended"}; !slices.Equal(got, want) || holder(t, api) != "" {
					t.Errorf("stop: %q\nwant %q; holder %q", got, want, holder(t, api))
				}
			})
		})
	}
}

func TestAnErrorBeforeTheElectionStartsNothingFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}})
		d.addTo(t, m, 0)
		m.Before(func(context.Context) error { return errors.New("rain") })
		p := start(t, api, m)
		api.Pass(time.Minute)
		if err := p.result(t); err == nil || err.Error() != "rain" || holder(t, api) != "" {
			t.Errorf("Start = %v, holder %q", err, holder(t, api))
		}
		if got, want := d.take(), []string{"server runs", "condition holds", "server ended"}; !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
	})
}

func TestStragglersAreNamedAndWriteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}, ShutdownTimeout: 10 * time.Second})
		d.addTo(t, m, 0)
		for _, err := range []error{m.Add(part{"slow controller", time.Minute, d}), m.Add(manager.WithoutLease(part{"slow cleaner", time.Minute, d}))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		p := start(t, api, m)
		api.Pass(time.Minute)
		p.stop()
		api.Pass(9 * time.Second)
		if holder(t, api) == "" {
			t.Error("the lease was given back while a controller may still write")
		}
		api.Pass(4 * time.Second)
		err := p.result(t)
		late, ok := errors.AsType[*manager.StragglersError](err)
		if !ok || !slices.Equal(late.Names, []string{"slow controller", "slow cleaner"}) || late.Timeout != 10*time.Second {
			t.Errorf("Start = %v", err)
		}
		if holder(t, api) != "" || m.Fence().Open(time.Now()) {
			t.Errorf("holder %q, fence open %t", holder(t, api), m.Fence().Open(time.Now()))
		}
	})
}

func TestALostLeaseEndsTheProcessAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}})
		d.addTo(t, m, 0)
		if err := m.Add(part{"slow controller", time.Minute, d}); err != nil {
			t.Fatal(err)
		}
		p := start(t, api, m)
		api.Pass(time.Minute)
		d.take()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" {
				return &kittest.Reaction{Err: errors.New("no route")}
			}
			return nil
		})
		api.Pass(16 * time.Second)
		if err := p.result(t); !errors.Is(err, leader.ErrLost) || m.Fence().Open(time.Now()) {
			t.Errorf("Start = %v, fence open %t", err, m.Fence().Open(time.Now()))
		}
		if got := d.take(); !slices.Contains(got, "free ended") || !slices.Contains(got, "server ended") || slices.Contains(got, "slow controller ended") {
			t.Errorf("%q", got)
		}
		api.Unreact()
	})
}

func TestAPartMayEndAndAnotherMayComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, d := kittest.New(t), &diary{}
		m := newManager(t, api, manager.Options{})
		if err := m.Add(manager.Func("brief", func(context.Context) error { d.add("brief ran"); return nil })); err != nil {
			t.Fatal(err)
		}
		p := start(t, api, m)
		api.Pass(time.Second)
		if err := m.Add(part{"later", 0, d}); err != nil {
			t.Fatal(err)
		}
		api.Pass(time.Second)
		if got, want := d.take(), []string{"brief ran", "later runs"}; !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		p.stop()
		api.Pass(time.Second)
		if err := p.result(t); err != nil || !slices.Equal(d.take(), []string{"later ended"}) {
			t.Errorf("Start = %v", err)
		}
	})
}
