package kit_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
	"orrery/kit/kittest"
)

// patient is a controller that can be made ill.
type patient struct {
	api     *kittest.API
	trigger *kit.Trigger[kit.Key]
	loop    kit.Controller

	mu   sync.Mutex // guards the fields below
	fail error
	hang time.Duration
}

// afflict makes every reconcile hang and then fail.
func (p *patient) afflict(hang time.Duration, fail error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang, p.fail = hang, fail
}

func (p *patient) affliction() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hang, p.fail
}

func newPatient(t *testing.T) *patient {
	p := &patient{api: kittest.New(t), trigger: kit.NewTrigger[kit.Key]()}
	r := p.api.Run(t, func(cc kit.ControllerContext) (bool, error) {
		kit.Store[corev1.ConfigMap](cc)
		return true, kit.NewController(cc, kit.Func[kit.Key](func(ctx context.Context, _ kit.Key) (kit.Result, error) {
			hang, fail := p.affliction()
			select {
			case <-time.After(hang):
			case <-ctx.Done():
			}
			return kit.Done, fail
		})).Watch(p.trigger.Source()).Complete()
	})
	p.loop = r.Controllers[0]
	p.api.Settle()
	return p
}

func (p *patient) refuseWatches() {
	p.api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.User == "informers" {
			return kittest.Refuse(http.StatusForbidden, "no watching here")
		}
		return nil
	})
	p.api.BreakWatch(mapKind)
}

func TestHealthNamesTheCause(t *testing.T) {
	a, b := kit.Key{Namespace: "n", Name: "a"}, kit.Key{Name: "b"}
	for _, c := range []struct {
		name  string
		cause func(p *patient)
		after time.Duration // within which all is still well
		then  time.Duration // after which it is not
		want  string        // empty: nothing is ever wrong
	}{
		{"nothing to do", func(*patient) {}, time.Hour, time.Hour, ""},
		{"keys that succeed", func(p *patient) { p.trigger.Add(a) }, time.Hour, time.Hour, ""},
		{"a key that fails", func(p *patient) { p.afflict(0, errors.New("boom")); p.trigger.Add(a) }, 4 * time.Minute, 3 * time.Minute, "boom"},
		{"a terminal failure", func(p *patient) { p.afflict(0, kit.Terminal(errors.New("boom"))); p.trigger.Add(a) }, time.Hour, time.Hour, ""},
		{"a reconcile that hangs", func(p *patient) { p.afflict(time.Hour, nil); p.trigger.Add(a) }, 9 * time.Minute, 2 * time.Minute, "n/a"},
		{"workers that hang", func(p *patient) { p.afflict(time.Hour, nil); p.trigger.Add(a); p.trigger.Add(b) }, time.Minute, 90 * time.Second, "1 keys wait"},
		{"a watch that is refused", (*patient).refuseWatches, 30 * time.Second, 2 * time.Minute, "no watching here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPatient(t)
				c.cause(p)
				for end := time.Now().Add(c.after); time.Now().Before(end); time.Sleep(10 * time.Second) {
					if err := p.loop.Healthy(time.Now()); err != nil {
						t.Fatalf("unhealthy too early: %v", err)
					}
				}
				time.Sleep(c.then)
				err := p.loop.Healthy(time.Now())
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Fatalf("health: %v, want %q", err, c.want)
				}
				if s := p.loop.State(time.Now()); (s.Degraded != "") != (c.want != "") {
					t.Errorf("the page says %q", s.Degraded)
				}
				hang, _ := p.affliction()
				p.afflict(0, nil)
				p.api.Unreact()
				if hang == 0 {
					time.Sleep(5 * time.Minute)
					if err := p.loop.Healthy(time.Now()); err != nil {
						t.Errorf("unhealthy after the cause has gone: %v", err)
					}
				}
			})
		})
	}
}

// TestAQuietQueueIsNotStalled looks at the instant in which the first key comes after a long time.
func TestAQuietQueueIsNotStalled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t)
		trigger := kit.NewTrigger[int]()
		r := loop(t, api, func(context.Context, int) (kit.Result, error) {
			time.Sleep(time.Second)
			return kit.Done, nil
		}, trigger.Source())
		trigger.Add(1)
		time.Sleep(time.Hour)
		for k := range 10 {
			trigger.Add(k)
			if err := r.Controllers[0].Healthy(time.Now()); err != nil {
				t.Fatalf("after an hour of silence: %v", err)
			}
		}
	})
}

func TestStateShowsWhatTheLoopDoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t, settings("a"))
		hold := make(chan struct{})
		r := api.Run(t, kit.InitFunc(func(cc kit.ControllerContext) (bool, error) {
			return true, kit.NewController(cc, kit.Func[kit.Key](func(_ context.Context, key kit.Key) (kit.Result, error) {
				if key.Name == "slow" {
					<-hold
				}
				if key.Name == "bad" {
					return kit.Done, kit.Terminal(errors.New("boom"))
				}
				return kit.After(time.Hour), nil
			})).Loop("extra").Workers(2).Watch(kit.For[corev1.ConfigMap]().Named("maps"), kit.Every(time.Hour, kit.Key{Name: "tick"})).Complete()
		}))
		c := r.Controllers[0]
		if c.Name() != "test/extra" || c.Descriptor() != "test" {
			t.Errorf("named %s of %s", c.Name(), c.Descriptor())
		}
		api.Settle()
		api.Create(t, settings("bad"))
		api.Create(t, settings("slow"))
		time.Sleep(time.Minute)
		s := c.State(time.Now())
		if s.Phase != "running" || s.Workers != 2 || s.Totals[kit.OutcomeLater] != 2 || s.Totals[kit.OutcomeTerminal] != 1 {
			t.Errorf("state %+v", s)
		}
		if len(s.Running) != 1 || s.Running[0].Key != "default/slow" || s.Running[0].Age.Round(time.Second) != time.Minute {
			t.Errorf("running %+v", s.Running)
		}
		if len(s.Last) != 3 || s.Last[0].Key != "default/bad" || s.Last[0].Error != "boom" {
			t.Errorf("last %+v", s.Last)
		}
		names := []string{}
		for _, src := range s.Sources {
			if !src.Synced {
				t.Errorf("%s is not synced", src.Name)
			}
			names = append(names, src.Name)
		}
		if got := strings.Join(names, ", "); got != "cache ConfigMap.v1, maps, every 1h0m0s" {
			t.Errorf("sources %s", got)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
		close(hold)
		for range 40 {
			api.Remove(t, settings("bad"))
			api.Create(t, settings("bad"))
			api.Settle()
		}
		if s = c.State(time.Now()); len(s.Last) != 32 || s.Last[0].At.Before(s.Last[31].At) {
			t.Errorf("%d entries kept, want the last 32, newest first", len(s.Last))
		}
		r.Stop()
		if s = c.State(time.Now()); s.Phase != "stopped" || c.Healthy(time.Now()) != nil {
			t.Errorf("after the stop: %s, %v", s.Phase, c.Healthy(time.Now()))
		}
	})
}
