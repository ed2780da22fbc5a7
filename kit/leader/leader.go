package leader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// ErrLost ends the process at once: anything that it still did, the next leader might do too.
var ErrLost = errors.New("the leader lease was lost; ending at once so that nothing is written twice")

// ErrTermEnded makes the process shut down: the API server has chosen another leader, which waits for the lease.
var ErrTermEnded = errors.New("the API server has chosen another leader; the lease was given back to it")

// WatchdogSlack is how long past the lease duration a lease may go without renewal before the process counts as dead.
const WatchdogSlack = 20 * time.Second

// Config says which lease an Election is about, and how it runs.
type Config struct {
	// Lock is the lease; see NewLock.
	Lock resourcelock.Interface
	// Name of the election in metrics.
	Name string
	// LeaseDuration is how long a lease is valid after its last renewal, RenewDeadline how long its holder tries to renew
	// it, RetryPeriod the time between two tries.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// KeepOnStop does not release the lease when the process stops, so that the next leader has to wait until it expires.
	KeepOnStop bool
	// Watchdog is told of the election; nil if there is none.
	Watchdog *leaderelection.HealthzAdaptor
	// Fence opens with the lease. Required.
	Fence *Fence
	// Candidate lets the API server choose the leader; nil means that whoever gets the lease first leads.
	Candidate *Candidate
}

// Election is one process's part in an election. It runs once.
type Election struct {
	fence     *Fence
	elector   *leaderelection.LeaderElector
	identity  string
	candidate *Candidate // nil: whoever gets the lease first leads
	led       func()     // what to do while leading; set by Run
	lost      chan struct{}
	taken     chan struct{}           // closed when somebody else is seen to hold the lease while this process leads
	giveUp    func()                  // closes taken, once
	endTerm   context.CancelCauseFunc // tells the work to end; set by Run
	holder    atomic.Pointer[string]  // who was last seen to hold the lease
}

// New checks the timings and prepares an election.
func New(c Config) (*Election, error) {
	e := &Election{fence: c.Fence, lost: make(chan struct{}), taken: make(chan struct{}), candidate: c.Candidate, identity: c.Lock.Identity()}
	e.giveUp = sync.OnceFunc(func() { close(e.taken) })
	source, _ := c.Lock.(watchable)
	lock := &standbyLock{
		Interface: fencedLock{c.Lock, c.Fence}, source: source, retry: c.RetryPeriod, coordinated: c.Candidate != nil,
		holder: func(who string) { e.holder.Store(&who) }, reigning: e.check,
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: c.Name, WatchDog: c.Watchdog, ReleaseOnCancel: !c.KeepOnStop, Coordinated: lock.coordinated,
		LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { e.led() },
			OnStoppedLeading: func() { close(e.lost) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	if c.Watchdog != nil {
		c.Watchdog.SetLeaderElection(elector)
	}
	e.elector = elector
	return e, nil
}

// Run calls f while this process holds the lease. It returns when f has returned, or ErrLost as soon as the lease is lost.
// When ctx ends f has to return by itself: only then is the lease released. Run returns ErrTermEnded if f was told to end
// because the API server has chosen another leader.
func (e *Election) Run(ctx context.Context, f func(context.Context) error) error {
	// The election outlives ctx: the lease is renewed until f has ended.
	election, release := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.FromContext(ctx)))
	defer release()
	stop := context.AfterFunc(ctx, func() {
		// A process that does not lead has nothing to finish first.
		if !e.fence.Open(time.Now()) {
			release()
		}
	})
	defer stop()
	work, endTerm := context.WithCancelCause(ctx)
	defer endTerm(nil)
	ended := make(chan error, 1)
	e.led, e.endTerm = func() { ended <- f(work) }, endTerm
	resign := e.stand(election)
	go e.elector.Run(election)
	select {
	case err := <-ended:
		e.fence.Close()
		resign() // before the lease is free, so that this process is not chosen again
		release()
		<-e.lost // the lease has been given back
		if err == nil && errors.Is(context.Cause(work), ErrTermEnded) {
			return ErrTermEnded
		}
		return err
	case <-e.taken:
		return ErrLost
	case <-e.lost:
		e.fence.Close()
		if ctx.Err() != nil {
			resign()
			return nil // a standby that was told to stop
		}
		return ErrLost
	}
}

// check inspects the lease each time that its holder reads it for a renewal. If it names somebody else all writing ends:
// it was taken away, by hand or by a process whose clock runs fast.
func (e *Election) check(r resourcelock.LeaderElectionRecord) {
	switch {
	case r.HolderIdentity != e.identity && (r.HolderIdentity != "" || e.candidate != nil):
		e.fence.Close()
		e.giveUp()
	case e.candidate != nil && r.PreferredHolder != "" && r.PreferredHolder != e.identity:
		e.endTerm(ErrTermEnded)
	}
}

// LockKind is the kind of object that leases are kept in.
const LockKind = resourcelock.LeasesResourceLock

// NewIdentity makes the name under which this process takes part in elections: the host's name and a random part, so that
// two processes on one host do not mistake each other's lease for their own.
func NewIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this process for the leader lease: %w", err)
	}
	return host + "_" + uuid.NewString(), nil
}

// NewLock returns a lease for the process of that identity. It is renewed on a connection of its own, with a timeout that
// leaves time for a second attempt before the renew deadline, and watched on another connection while somebody else holds
// it. Changes of leadership are published by the recorder.
func NewLock(config *rest.Config, identity, kind, namespace, name string, renewDeadline time.Duration, recorder record.EventRecorder) (resourcelock.Interface, error) {
	config = client.AddAgent(rest.CopyConfig(config), userAgent)
	unlimited(config)
	watching, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of lease %s/%s: %w", namespace, name, err)
	}
	config.Timeout = max(renewDeadline/2, time.Second)
	apart(config, renewDeadline/2)
	renewing, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of lease %s/%s: %w", namespace, name, err)
	}
	lock, err := resourcelock.New(kind, namespace, name, nil, renewing, resourcelock.ResourceLockConfig{Identity: identity, EventRecorder: recorder})
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", namespace, name, err)
	}
	return watchedLock{lock, watching.Leases(namespace), name}, nil
}

// userAgent is added to that of the process in requests about elections.
const userAgent = "leader-election"

// apart gives a configuration a connection of its own, so that its requests do not wait behind others.
func apart(config *rest.Config, timeout time.Duration) {
	config.Dial = (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext
	unlimited(config)
}

// unlimited removes the rate limit from a configuration, even one that it shares with other clients.
func unlimited(config *rest.Config) { config.QPS, config.RateLimiter = -1, nil }

// watchedLock is a lease that can be watched.
type watchedLock struct {
	resourcelock.Interface
	leases coordinationv1client.LeaseInterface
	name   string
}

func (l watchedLock) watch(ctx context.Context) (watch.Interface, error) {
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, l.name).String()
	return l.leases.Watch(ctx, metav1.ListOptions{FieldSelector: one})
}
