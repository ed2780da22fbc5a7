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

// standbyLock is a lock as an election takes it that wants to know at once when it can lead. An election looks at its lock
// every few seconds; this one answers a look, while another process holds the lease, only once that has ended: the lease
// was given back, not renewed for its duration, or deleted and not made anew by its holder. Meanwhile it watches the lease,
// so that a standby costs the server no requests, and looks by itself where it may not watch, or the watch is silent. Where
// the API server names the leader it waits until that is this process: a lease that is free or has run out is not there
// for the taking.
//
// One goroutine uses it at a time, as the election does.
type standbyLock struct {
	resourcelock.Interface
	source watchable     // nil: it cannot be watched
	retry  time.Duration // between two looks where there is no watch

	// coordinated says that the API server makes the lease and writes into it who is to hold it.
	coordinated bool
	holder      func(string)                            // told who holds the lease whenever it is looked at; may be nil
	reigning    func(resourcelock.LeaderElectionRecord) // told what the lease is like when its holder looks at it; may be nil

	leading  bool
	acquired metav1.Time                       // set while leading
	last     resourcelock.LeaderElectionRecord // as it was seen last
	seen     []byte                            // the same as it is stored
	since    time.Time                         // when it was first seen
	deleted  time.Time                         // when the lease was found to be gone; zero while it is there
	vacant   time.Time                         // since when nobody has been named to hold it; zero while somebody is
	said     bool                              // that nobody is
}

// vacancy is how long the API server may name nobody until that is worth a line in the log.
const vacancy = 15 * time.Second

// Get implements resourcelock.Interface. A lease that has run out is shown as one that nobody holds, as it was this lock
// that saw it run out. Where ctx ends first it is shown as it was seen last, which is no error of a standby that stops.
func (l *standbyLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.leading {
		record, raw, err := l.Interface.Get(ctx)
		if err == nil && l.reigning != nil {
			l.reigning(*record)
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
			record, raw, err = &resourcelock.LeaderElectionRecord{}, nil, nil // it is not for this process to make it
		case gone && l.returns(time.Now()):
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

// Update implements resourcelock.Interface. Of several that saw that the lease is free one gets it; the others go on
// waiting.
func (l *standbyLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
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
		if l.coordinated { // it is the holder already, and only takes office
			r.LeaderTransitions, r.Strategy = record.LeaderTransitions, record.Strategy
			continue
		}
		r.LeaderTransitions = record.LeaderTransitions + 1
	}
}

// sayVacancy says once that no leader has been named for a while, which this process waits for.
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

// stamped returns a record with the right times: the election takes them before it asks for the lock, and the answer may
// have been long in coming.
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

// observe notes what the lease is like. How long it stays so is measured from the moment that it was seen, never from the
// times in it, which are those of another machine.
func (l *standbyLock) observe(r resourcelock.LeaderElectionRecord, raw []byte, now time.Time) {
	if !bytes.Equal(raw, l.seen) {
		l.last, l.seen, l.since = r, raw, now
	}
}

// returns reports whether a lease that is gone is left to its holder still, which makes it anew when it renews it next and
// writes until then.
func (l *standbyLock) returns(now time.Time) bool {
	if l.free(l.last) || l.expired(l.last, now) {
		return false
	}
	if l.deleted.IsZero() {
		l.deleted = now
	}
	return now.Sub(l.deleted) < l.retry*3/2
}

// free reports whether this process may take the lease: nobody else holds it or, where the API server names the leader,
// it has named this one and not thought better of it.
func (l *standbyLock) free(r resourcelock.LeaderElectionRecord) bool {
	if l.coordinated {
		return r.HolderIdentity == l.Identity() && r.PreferredHolder == ""
	}
	return r.HolderIdentity == "" || r.HolderIdentity == l.Identity()
}

// expired reports whether its holder has not renewed the lease for its duration. Where the API server names the leader that
// is its business.
func (l *standbyLock) expired(r resourcelock.LeaderElectionRecord, now time.Time) bool {
	return !l.coordinated && !now.Before(l.expiry(r))
}

func (l *standbyLock) expiry(r resourcelock.LeaderElectionRecord) time.Time {
	return l.since.Add(time.Duration(r.LeaseDurationSeconds) * time.Second)
}

// follow watches the lease; nil where that does not work.
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

// await returns when it is time to look at the lease again: when it seems to be free, when it runs out unless it is renewed,
// and when nothing has been heard of it for a while. It reports false where changes has ended.
func (l *standbyLock) await(ctx context.Context, record *resourcelock.LeaderElectionRecord, changes watch.Interface) bool {
	for {
		// A holder renews the lease about every retry period. A watch that tells nothing may have died.
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
				return l.pause(ctx)
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

// pause keeps a watch that ends at once from being begun again and again. It reports false.
func (l *standbyLock) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case <-time.After(wait.Jitter(l.retry/4, 1)):
	}
	return false
}
