package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery/kit"
	"orrery/kit/kittest"
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

// starting prepares a start of the descriptors in a kittest context.
func starting(api *kittest.API, list ...kit.Descriptor) (*options.CMServer, *loops, func(kit.Descriptor) (ControllerContext, error)) {
	s := options.NewCMServer()
	s.Controllers = list
	scope := kit.NewScope()
	return s, newLoops(scope), func(d kit.Descriptor) (ControllerContext, error) { return api.Context(d.Name).In(scope), nil }
}

func TestControllersStartInTheOrderOfTheListWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		skip := func(cc kit.ControllerContext) (bool, error) { built = append(built, cc.Name); return false, nil }
		s, l, contextFor := starting(kittest.New(t),
			kit.Descriptor{Name: "token", Init: looping(&built, 0)}, kit.Descriptor{Name: "skipped", Init: skip},
			kit.Descriptor{Name: "off", OffByDefault: true, Init: looping(&built, 0)}, kit.Descriptor{Name: "unwanted", Init: looping(&built, 0)},
			kit.Descriptor{Name: "b", Init: looping(&built, 0)}, kit.Descriptor{Name: "a", Init: looping(&built, 0)})
		s.Selection = []string{"*", "-unwanted"}
		s.ControllerStartInterval.Duration = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		if err := StartControllers(ctx, s, NewControllerInitializers(s.Controllers), contextFor, l); err != nil {
			t.Fatal(err)
		}
		if want := []string{"token", "skipped", "b", "a"}; !slices.Equal(built, want) {
			t.Errorf("built %v, want %v", built, want)
		}
		if took := time.Since(start); took < 3*time.Second || took > 6*time.Second {
			t.Errorf("took %s, want a pause of 1 to 2 seconds before each but the first", took)
		}
		cancel()
		if late := l.wait(10 * time.Second); len(late) != 0 {
			t.Errorf("still running: %v", late)
		}
	})
}

func TestAnErrorEndsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		bad := func(kit.ControllerContext) (bool, error) { return false, errors.New("no such file") }
		s, l, contextFor := starting(kittest.New(t), kit.Descriptor{Name: "bad", Init: bad}, kit.Descriptor{Name: "next", Init: looping(&built, 0)})
		err := StartControllers(t.Context(), s, NewControllerInitializers(s.Controllers), contextFor, l)
		if err == nil || !strings.Contains(err.Error(), "bad") || !strings.Contains(err.Error(), "no such file") || len(built) != 0 {
			t.Errorf("error = %v, built %v", err, built)
		}
	})
}

func TestAStopDuringTheStartEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		s, l, contextFor := starting(kittest.New(t), kit.Descriptor{Name: "a", Init: looping(&built, 0)}, kit.Descriptor{Name: "b", Init: looping(&built, 0)})
		s.ControllerStartInterval.Duration = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := StartControllers(ctx, s, NewControllerInitializers(s.Controllers), contextFor, l)
		if !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(built, []string{"a"}) {
			t.Errorf("error = %v, built %v", err, built)
		}
		if late := l.wait(time.Minute); len(late) != 0 {
			t.Errorf("still running: %v", late)
		}
	})
}

func TestStragglersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []string
		s, l, contextFor := starting(kittest.New(t), kit.Descriptor{Name: "quick", Init: looping(&built, 0)},
			kit.Descriptor{Name: "slow", Init: looping(&built, time.Minute)}, kit.Descriptor{Name: "also-slow", Init: looping(&built, time.Minute)})
		ctx, cancel := context.WithCancel(t.Context())
		if err := StartControllers(ctx, s, NewControllerInitializers(s.Controllers), contextFor, l); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		cancel()
		start := time.Now()
		if late := l.wait(10 * time.Second); !slices.Equal(late, []string{"also-slow", "slow"}) || time.Since(start) != 10*time.Second {
			t.Errorf("still running after %s: %v", time.Since(start), late)
		}
		if late := l.wait(10 * time.Minute); len(late) != 0 || time.Since(start) > 2*time.Minute {
			t.Errorf("still running: %v; waited %s", late, time.Since(start))
		}
	})
}
