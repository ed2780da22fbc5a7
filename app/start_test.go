package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
	"orrery/kit/kittest"
	"orrery/kit/manager"
	"orrery/options"
)

// looping is the init function of a controller whose one loop ends after ctx and a while.
func looping(built *[]string, linger time.Duration) kit.InitFunc {
	return func(cc kit.ControllerContext) (bool, error) {
		*built = append(*built, cc.Name)
		r := kit.Func[string](func(ctx context.Context, _ string) (kit.Result, error) {
			<-ctx.Done()
			time.Sleep(linger)
			return kit.Done, nil
		})
		return true, kit.NewController(cc, r).Watch(kit.Every(time.Hour, "x")).Complete()
	}
}

// starting is a start of controllers in a kittest context.
type starting struct {
	*manager.Manager
	options *options.CMServer
	api     *kittest.API
	err     error // of StartControllers
	ended   chan error
}

func newStart(t *testing.T, list ...kit.Descriptor) *starting {
	t.Helper()
	api := kittest.New(t)
	m, err := manager.New(api.Config("orrery"), manager.Options{Name: "test", SyncTimeout: -1, ShutdownTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := &starting{Manager: m, options: options.NewCMServer(), api: api, ended: make(chan error, 1)}
	s.options.Controllers = list
	t.Cleanup(func() { api.Pass(10 * time.Minute) })
	return s
}

// run starts the controllers and returns when they have been, or ctx has ended.
func (s *starting) run(t *testing.T, ctx context.Context) {
	t.Helper()
	started := make(chan struct{})
	err := s.Add(manager.Func("controllers", func(ctx context.Context) error {
		defer close(started)
		contextFor := func(d kit.Descriptor) (ControllerContext, error) { return s.Context(d.Name), nil }
		s.err = StartControllers(ctx, s.options, NewControllerInitializers(s.options.Controllers), contextFor, s.Manager)
		return s.err
	}))
	if err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.Start(ctx) }()
	<-started
}

func TestControllersStartInTheOrderOfTheListWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		skip := func(cc kit.ControllerContext) (bool, error) { built = append(built, cc.Name); return false, nil }
		s := newStart(t,
			kit.Descriptor{Name: "token", Init: looping(&built, 0)}, kit.Descriptor{Name: "skipped", Init: skip},
			kit.Descriptor{Name: "off", OffByDefault: true, Init: looping(&built, 0)}, kit.Descriptor{Name: "unwanted", Init: looping(&built, 0)},
			kit.Descriptor{Name: "b", Init: looping(&built, 0)}, kit.Descriptor{Name: "a", Init: looping(&built, 0)})
		s.options.Selection = []string{"*", "-unwanted"}
		s.options.ControllerStartInterval.Duration = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		s.run(t, ctx)
		if s.err != nil {
			t.Fatal(s.err)
		}
		if want := []string{"token", "skipped", "b", "a"}; !slices.Equal(built, want) {
			t.Errorf("built %v, want %v", built, want)
		}
		if took := time.Since(start); took < 3*time.Second || took > 6*time.Second {
			t.Errorf("took %s, want a pause of 1 to 2 seconds before each but the first", took)
		}
		cancel()
		if err := <-s.ended; err != nil {
			t.Errorf("Start = %v", err)
		}
	})
}

func TestAnErrorEndsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		bad := func(kit.ControllerContext) (bool, error) { return false, errors.New("no such file") }
		s := newStart(t, kit.Descriptor{Name: "bad", Init: bad}, kit.Descriptor{Name: "next", Init: looping(&built, 0)})
		s.run(t, t.Context())
		if err := <-s.ended; !errors.Is(err, s.err) || !strings.Contains(err.Error(), "bad") || !strings.Contains(err.Error(), "no such file") || len(built) != 0 {
			t.Errorf("error = %v, built %v", err, built)
		}
	})
}

func TestAStopDuringTheStartEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		s := newStart(t, kit.Descriptor{Name: "a", Init: looping(&built, 0)}, kit.Descriptor{Name: "b", Init: looping(&built, 0)})
		s.options.ControllerStartInterval.Duration = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.run(t, ctx)
		if err := <-s.ended; err != nil || !errors.Is(s.err, context.Canceled) || !slices.Equal(built, []string{"a"}) {
			t.Errorf("Start = %v, error = %v, built %v", err, s.err, built)
		}
	})
}

func TestStragglersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		s := newStart(t, kit.Descriptor{Name: "quick", Init: looping(&built, 0)},
			kit.Descriptor{Name: "slow", Init: looping(&built, time.Minute)}, kit.Descriptor{Name: "also-slow", Init: looping(&built, time.Minute)})
		ctx, cancel := context.WithCancel(t.Context())
		s.run(t, ctx)
		time.Sleep(time.Second)
		cancel()
		start := time.Now()
		err := <-s.ended
		late, ok := errors.AsType[*manager.StragglersError](err)
		if !ok || !slices.Equal(late.Names, []string{"controller slow", "controller also-slow"}) || late.Cause != nil || time.Since(start) != 10*time.Second {
			t.Errorf("Start = %v after %s", err, time.Since(start))
		}
	})
}

// TestAControllerWaitsForItsKinds while the others are started.
func TestAControllerWaitsForItsKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
		s := newStart(t, kit.Descriptor{Name: "gadgets", Kinds: []schema.GroupVersionKind{kind}, Init: looping(&built, 0)},
			kit.Descriptor{Name: "next", Init: looping(&built, 0)})
		ctx, cancel := context.WithCancel(t.Context())
		s.run(t, ctx)
		s.api.Pass(time.Minute)
		if s.err != nil || !slices.Equal(built, []string{"next"}) {
			t.Errorf("error = %v, built %v", s.err, built)
		}
		s.api.AddKind(kind, "gadgets", true)
		s.api.Serve(kind.GroupVersion().WithResource("gadgets"), true)
		s.api.Pass(5 * time.Second)
		if !slices.Equal(built, []string{"next", "gadgets"}) || len(s.Controllers()) != 2 {
			t.Errorf("built %v once the kind is there", built)
		}
		cancel()
		if err := <-s.ended; err != nil {
			t.Errorf("Start = %v", err)
		}
	})
}
