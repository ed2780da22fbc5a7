package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// watchable is a lock whose changes can be watched.
type watchable interface {
	watch(context.Context) (watch.Interface, error)
}

// standbyLock is a lock for an election that has to know at once when it can lead. An election polls its lock every few
// seconds. While another process holds the lease, this lock does not answer the poll until that has ended: the lease was
// released, has not been renewed for its duration, or was deleted and not created again by its holder. Meanwhile it
// watches the lease, so that a standby costs the server no requests, and polls only if it may not watch or the watch is
// silent. If the API server names the leader it waits until that is this process, and does not take a lease that is free
// or has expired.
//
// One goroutine uses it at a time, as the election does.
type standbyLock struct {
	resourcelock.Interface
	source watchable     // nil: it cannot be watched
	retry  time.Duration // between two looks where there is no watch

	// coordinated says that the API server makes the lease and writes into it who is to hold it.
	coordinated bool
	holder      func(string)                            // called with the holder whenever the lease is read on standby; may be nil
	reigning    func(resourcelock.LeaderElectionRecord) // called with the lease whenever its holder reads it; may be nil

	leading  bool
	acquired metav1.Time                       // set while leading
	taken    bool                              // the lease was last read naming another holder, while this process led
	last     resourcelock.LeaderElectionRecord // the lease as it was last seen
	seen     []byte                            // the same, as stored
	since    time.Time                         // when the lease was first seen like that
	deleted  time.Time                         // when the lease was found to be gone; zero while it is there
	vacant   time.Time                         // since when the API server has named nobody; zero while it names somebody
	said     bool                              // the vacancy has been logged
}

// vacancy is how long the API server may name nobody before that is logged.
const vacancy = 15 * time.Second

// Get implements resourcelock.Interface. An expired lease is returned as one that nobody holds, since only this lock, and
// not the election, has seen it expire. If ctx ends first, the lease is returned as it was last seen: for a standby to be
// stopped is no error.
func (l *standbyLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.leading {
		record, raw, err := l.Interface.Get(ctx)
		if err == nil {
			l.taken = record.HolderIdentity != "" && record.HolderIdentity != l.Identity()
			if l.reigning != nil {
				l.reigning(*record)
			}
		}
		return record, raw, err
	}
	var changes watch.Interface
	defer func() {
		if changes != nil {
			changes.Stop()
		}
	}()
	for {
		record, raw, err := l.Interface.Get(ctx)
		switch gone := apierrors.IsNotFound(err); {
		case gone && l.coordinated:
			record, raw, err = &resourcelock.LeaderElectionRecord{}, nil, nil // the API server creates it, not this process
		case gone && l.awaitsRecreation(time.Now()):
			if l.pause(ctx); ctx.Err() == nil {
				continue
			}
			last := l.last
			return &last, l.seen, nil
		}
		if err != nil {
			return nil, nil, err
		}
		l.deleted = time.Time{}
		l.observe(*record, raw, time.Now())
		l.tell(*record)
		l.sayVacancy(ctx, *record, time.Now())
		if l.free(*record) {
			return record, raw, nil
		}
		if l.expired(*record, time.Now()) {
			record.HolderIdentity = ""
			return record, raw, nil
		}
		if changes == nil {
			changes = l.follow(ctx)
		}
		if !l.await(ctx, record, changes) && changes != nil {
			changes.Stop()
			changes = nil
		}
		if ctx.Err() != nil {
			return record, raw, nil
		}
	}
}

// Create implements resourcelock.Interface.
func (l *standbyLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, l.stamped(r))
	l.leading = err == nil
	return err
}

// Update implements resourcelock.Interface. Of several processes that see that the lease is free one gets it; the others go
// on waiting. A lease that another process has taken meanwhile is not released: the election reads it before it does so,
// after a failure to renew it as well, but goes by what it saw last.
func (l *standbyLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" && l.taken {
		klog.FromContext(ctx).Info("Somebody else holds the leader lease by now; not releasing it", "lock", l.Describe())
		return nil
	}
	for {
		err := l.Interface.Update(ctx, l.stamped(r))
		if err == nil {
			l.leading = r.HolderIdentity == l.Identity()
			return nil
		}
		if l.leading || !apierrors.IsConflict(err) {
			return err
		}
		record, _, err := l.Get(ctx)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if l.coordinated { // this process is named as the holder already
			r.LeaderTransitions, r.Strategy = record.LeaderTransitions, record.Strategy
			continue
		}
		r.LeaderTransitions = record.LeaderTransitions + 1
	}
}

// sayVacancy logs once that the API server, for which this process waits, has not named a leader for a while.
func (l *standbyLock) sayVacancy(ctx context.Context, r resourcelock.LeaderElectionRecord, now time.Time) {
	switch {
	case !l.coordinated || r.HolderIdentity != "":
		l.vacant = time.Time{}
	case l.vacant.IsZero():
		l.vacant = now
	case !l.said && now.Sub(l.vacant) >= vacancy:
		l.said = true
		klog.FromContext(ctx).Info("The API server names no leader; does it run with --feature-gates=CoordinatedLeaderElection=true?",
			"lock", l.Describe(), "since", l.vacant.Format(time.RFC3339))
	}
}

// stamped returns a record with the current time: the election sets the times before it reads the lock, which on standby
// may take arbitrarily long.
func (l *standbyLock) stamped(r resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	if r.HolderIdentity == "" {
		return r
	}
	r.RenewTime = metav1.Now()
	if !l.leading {
		l.acquired = r.RenewTime
	}
	r.AcquireTime = l.acquired
	return r
}

// observe notes the state of the lease. How long it stays like that is measured from when it was seen, never from the times
// in it, which come from another machine's clock.
func (l *standbyLock) observe(r resourcelock.LeaderElectionRecord, raw []byte, now time.Time) {
	if !bytes.Equal(raw, l.seen) {
		l.last, l.seen, l.since = r, raw, now
	}
}

// awaitsRecreation reports whether a deleted lease is still left to its holder, which creates it again at its next renewal
// and goes on writing until then.
func (l *standbyLock) awaitsRecreation(now time.Time) bool {
	if l.free(l.last) || l.expired(l.last, now) {
		return false
	}
	if l.deleted.IsZero() {
		l.deleted = now
	}
	return now.Sub(l.deleted) < l.retry*3/2
}

// free reports whether this process may take the lease: nobody else holds it or, if the API server names the leader, it
// has named this process and does not prefer another one by now.
func (l *standbyLock) free(r resourcelock.LeaderElectionRecord) bool {
	if l.coordinated {
		return r.HolderIdentity == l.Identity() && r.PreferredHolder == ""
	}
	return r.HolderIdentity == "" || r.HolderIdentity == l.Identity()
}

// expired reports whether the holder has not renewed the lease for its duration. If the API server names the leader, it
// alone deals with expired leases.
func (l *standbyLock) expired(r resourcelock.LeaderElectionRecord, now time.Time) bool {
	return !l.coordinated && !now.Before(l.expiry(r))
}

func (l *standbyLock) expiry(r resourcelock.LeaderElectionRecord) time.Time {
	return l.since.Add(time.Duration(r.LeaseDurationSeconds) * time.Second)
}

// follow watches the lease; it returns nil if that is not possible.
func (l *standbyLock) follow(ctx context.Context) watch.Interface {
	if l.source == nil {
		return nil
	}
	changes, err := l.source.watch(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot watch the leader lease; looking at it from time to time", "lock", l.Describe(), "err", err)
		return nil
	}
	return changes
}

// await returns when it is time to read the lease again: when it seems to be free, when it expires unless it is renewed, or
// when nothing has been heard of it for a while. It reports false if changes has ended.
func (l *standbyLock) await(ctx context.Context, record *resourcelock.LeaderElectionRecord, changes watch.Interface) bool {
	for {
		// A holder renews the lease about every retry period. A watch that stays silent may be dead.
		pause := wait.Jitter(l.retry, leaderelection.JitterFactor)
		var events <-chan watch.Event
		if changes != nil {
			pause, events = 3*l.retry, changes.ResultChan()
		}
		if !l.coordinated {
			pause = max(0, min(pause, time.Until(l.expiry(*record))))
		}
		look := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			look.Stop()
			return true
		case <-look.C:
			return true
		case e, open := <-events:
			look.Stop()
			if !open || e.Type == watch.Error {
				l.pause(ctx)
				return false
			}
			lease, ok := e.Object.(*coordinationv1.Lease)
			if !ok || e.Type == watch.Bookmark {
				continue
			}
			if e.Type == watch.Deleted {
				return true
			}
			record = resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
			l.tell(*record)
			if l.free(*record) {
				return true
			}
			if raw, err := json.Marshal(record); err == nil {
				l.observe(*record, raw, time.Now())
			}
		}
	}
}

// pause keeps this lock from polling, or from restarting a watch that ends at once, in a tight loop.
func (l *standbyLock) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(wait.Jitter(l.retry/4, 1)):
	}
}
