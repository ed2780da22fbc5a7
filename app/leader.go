package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/options"
)

// errLeaseLost ends the process: everything it still does would be done by two.
var errLeaseLost = errors.New("the leader lease was lost; ending at once so that nothing is written twice")

// watchdogSlack is how long past the lease duration a lease may go without renewal before the process counts as dead.
const watchdogSlack = 20 * time.Second

// lead runs f while this process holds the lease and returns when f has, or with errLeaseLost. When ctx ends f has to
// return by itself: only then is the lease given back. Without election f runs at once.
func lead(ctx context.Context, s *options.CMServer, c *clients, recorder record.EventRecorder, dog *leaderelection.HealthzAdaptor, f func(context.Context) error) error {
	e := &s.LeaderElection
	if !e.LeaderElect {
		return f(ctx)
	}
	lock, err := newLock(s, c, recorder)
	if err != nil {
		return err
	}
	// The election outlives ctx: the lease is renewed until the loops have ended.
	election, release := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.FromContext(ctx)))
	defer release()
	stop := context.AfterFunc(ctx, func() {
		// A process that does not lead has nothing to finish first.
		if !c.fence.open(time.Now()) {
			release()
		}
	})
	defer stop()
	ended := make(chan error, 1)
	lost := make(chan struct{})
	go leaderelection.RunOrDie(election, leaderelection.LeaderElectionConfig{
		Lock: fencedLock{lock, c.fence}, Name: e.ResourceName, WatchDog: dog, ReleaseOnCancel: true,
		LeaseDuration: e.LeaseDuration.Duration, RenewDeadline: e.RenewDeadline.Duration, RetryPeriod: e.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { ended <- f(ctx) },
			OnStoppedLeading: func() { close(lost) },
		},
	})
	select {
	case err := <-ended:
		c.fence.close()
		release()
		<-lost // the lease has been given back
		return err
	case <-lost:
		c.fence.close()
		if ctx.Err() != nil {
			return nil // a standby that was told to stop
		}
		return errLeaseLost
	}
}

func newLock(s *options.CMServer, c *clients, recorder record.EventRecorder) (resourcelock.Interface, error) {
	e := &s.LeaderElection
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process for the leader lease: %w", err)
	}
	// Two processes on one host must not take each other's lease for their own.
	id := host + "_" + uuid.NewString()
	config := c.forElection(e.RenewDeadline.Duration)
	lock, err := resourcelock.NewFromKubeconfig(e.ResourceLock, e.ResourceNamespace, e.ResourceName,
		resourcelock.ResourceLockConfig{Identity: id, EventRecorder: recorder}, config, e.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("--leader-elect-resource-lock=%s: %w", e.ResourceLock, err)
	}
	return lock, nil
}
