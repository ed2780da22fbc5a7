package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/manager"
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

// StartControllers builds and runs the enabled controllers that have an InitFunc, in the order of s.Controllers, which has
// the service account token controller first, and pauses between two if the options ask for that. It returns when all have
// been started except those whose kinds the server does not have yet. The controllers run until their tenure ends.
func StartControllers(ctx context.Context, s *options.CMServer, inits map[string]InitFunc, contextFor func(kit.Descriptor) (ControllerContext, error), t tenure) error {
	log := klog.FromContext(ctx)
	started := 0
	for _, d := range s.Controllers {
		init, ok := inits[d.Name]
		if !ok {
			continue
		}
		if !s.IsEnabled(d) {
			log.Info("Controller is disabled", "controller", d.Name)
			continue
		}
		if interval := s.ControllerStartInterval.Duration; interval > 0 && started > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait.Jitter(interval, controllerStartJitter)):
			}
		}
		start := func() (bool, error) { return startOne(d, init, contextFor, t) }
		if len(d.Kinds) > 0 {
			if err := startWithKinds(log, d, start, t); err != nil {
				return err
			}
			continue
		}
		on, err := start()
		switch {
		case err != nil:
			return err
		case !on:
			log.Info("Controller is skipped", "controller", d.Name)
			continue
		}
		started++
		log.Info("Started controller", "controller", d.Name)
	}
	return nil
}

// startOne builds a controller and runs its loops.
func startOne(d kit.Descriptor, init InitFunc, contextFor func(kit.Descriptor) (ControllerContext, error), t tenure) (on bool, err error) {
	cc, err := contextFor(d)
	if err != nil {
		return false, fmt.Errorf("start controller %s: %w", d.Name, err)
	}
	return init.Build(cc, t.AddController)
}

// startWithKinds starts a controller as soon as the server has its kinds.
func startWithKinds(log klog.Logger, d kit.Descriptor, start func() (bool, error), t tenure) error {
	return t.Add(manager.Func(d.Name, func(ctx context.Context) error {
		return manager.WaitForKinds(ctx, log, t.Discovery(), d, func() error {
			_, err := start()
			return err
		})
	}))
}

// controllerStartJitter is the fraction by which the pause between two starts may exceed --controller-start-interval.
const controllerStartJitter = 1.0
