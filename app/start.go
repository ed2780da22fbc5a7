package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/options"
)

// InitFunc builds a controller from its context.
type InitFunc = kit.InitFunc

// ControllerContext is what a controller is built with.
type ControllerContext = kit.ControllerContext

// NewControllerInitializers returns the InitFuncs by controller name.
func NewControllerInitializers(all []kit.Descriptor) map[string]InitFunc {
	m := make(map[string]InitFunc, len(all))
	for _, d := range all {
		m[d.Name] = d.Init
	}
	return m
}

// loops are the running controllers of a process.
type loops struct {
	scope *kit.Scope
	wg    sync.WaitGroup

	mu      sync.Mutex // guards running
	running map[string]int
}

func newLoops(s *kit.Scope) *loops { return &loops{scope: s, running: map[string]int{}} }

// StartControllers builds and runs the enabled controllers in the order of the list, the one that mints service
// account tokens first, with a pause between two if one is asked for. It returns when all have been started; they run
// until ctx ends.
func StartControllers(ctx context.Context, s *options.CMServer, inits map[string]InitFunc, contextFor func(kit.Descriptor) (ControllerContext, error), l *loops) error {
	log := klog.FromContext(ctx)
	started := 0
	for _, d := range s.Controllers {
		init, ok := inits[d.Name]
		if !ok || !s.IsEnabled(d) {
			log.Info("Controller is disabled", "controller", d.Name)
			continue
		}
		if d := s.ControllerStartInterval.Duration; d > 0 && started > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait.Jitter(d, controllerStartJitter)):
			}
		}
		cc, err := contextFor(d)
		if err != nil {
			return err
		}
		before := len(l.scope.Controllers())
		on, err := init(cc)
		switch {
		case err != nil:
			return fmt.Errorf("start controller %s: %w", d.Name, err)
		case !on:
			log.Info("Controller is skipped", "controller", d.Name)
			continue
		}
		started++
		for _, c := range l.scope.Controllers()[before:] {
			l.run(ctx, c)
		}
		log.Info("Started controller", "controller", d.Name)
	}
	return nil
}

// controllerStartJitter is the part by which the pause between two starts may be longer than asked for.
const controllerStartJitter = 1.0

func (l *loops) run(ctx context.Context, c kit.Controller) {
	l.count(c.Name(), 1)
	l.wg.Go(func() {
		defer l.count(c.Name(), -1)
		c.Run(ctx)
	})
}

func (l *loops) count(name string, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[name] += by; l.running[name] == 0 {
		delete(l.running, name)
	}
}

// wait returns when all loops have ended or the timeout has passed, with the names of those still running.
func (l *loops) wait(timeout time.Duration) (stragglers []string) {
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(timeout):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.running {
		stragglers = append(stragglers, name)
	}
	slices.Sort(stragglers)
	return stragglers
}
