package leader

import (
	"context"
	"encoding/json"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Optional returns a lock that works without its lease if the server forbids this process to use it: then every process
// leads. It is for processes that store nothing, of which two can run at once without harm.
func Optional(lock resourcelock.Interface, log klog.Logger) resourcelock.Interface {
	return &optionalLock{Interface: lock, log: log}
}

type optionalLock struct {
	resourcelock.Interface
	log klog.Logger

	mu      sync.Mutex // guards the fields below; never held over a call
	without bool
	own     *resourcelock.LeaderElectionRecord // the record that stands in for the lease
}

// refused reports whether the server has forbidden the lease, by err or before.
func (l *optionalLock) refused(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.without && apierrors.IsForbidden(err) {
		l.without = true
		l.log.Info("The API server forbids the lease; going on without it", "lease", l.Describe(), "err", err)
	}
	return l.without
}

// Get implements resourcelock.Interface.
func (l *optionalLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if !l.refused(nil) {
		record, raw, err := l.Interface.Get(ctx)
		if !l.refused(err) {
			return record, raw, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, l.Describe())
	}
	record := *l.own
	raw, err := json.Marshal(record)
	return &record, raw, err
}

// Create implements resourcelock.Interface.
func (l *optionalLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Create(ctx, r) })
}

// Update implements resourcelock.Interface.
func (l *optionalLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Update(ctx, r) })
}

func (l *optionalLock) write(r resourcelock.LeaderElectionRecord, write func() error) error {
	if !l.refused(nil) {
		if err := write(); !l.refused(err) {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = &r
	return nil
}
