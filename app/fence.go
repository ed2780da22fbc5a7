package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errFenced is what a controller's write gets once this process may no longer be the leader.
var errFenced = errors.New("write refused: the leader lease is not held")

// fence keeps a process that lost its lease from writing, whatever its goroutines are still doing. It closes by
// itself when no renewal has succeeded for a lease duration, so that a process that was paused, and whose lease
// another has taken meanwhile, writes nothing when it continues, before it has even looked at the lease.
type fence struct {
	duration time.Duration // of the lease; 0: no election, always open
	renewed  atomic.Int64  // start of the last successful renewal, in nanoseconds of the wall clock; 0: none
	closed   atomic.Bool
}

// open reports whether writing is allowed now. The wall clock is used because it also runs while a machine is
// suspended, which the monotonic clock does not.
func (f *fence) open(now time.Time) bool {
	if f.closed.Load() {
		return false
	}
	return f.duration == 0 || now.UnixNano()-f.renewed.Load() < int64(f.duration)
}

// close ends all writing for good.
func (f *fence) close() { f.closed.Store(true) }

// wrap returns a transport that refuses writes while the fence is shut. Reads pass.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper { return fencedTransport{f, next} }

type fencedTransport struct {
	*fence
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t fencedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !t.open(time.Now()) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, errFenced)
	}
	return t.next.RoundTrip(r)
}

// fencedLock notes each successful renewal of the lease.
type fencedLock struct {
	resourcelock.Interface
	*fence
}

// Create implements resourcelock.Interface.
func (l fencedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.noting(func() error { return l.Interface.Create(ctx, r) })
}

// Update implements resourcelock.Interface.
func (l fencedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.noting(func() error { return l.Interface.Update(ctx, r) })
}

// noting counts the lease from before the request: another process counts it from when it saw the change, which is
// later.
func (l fencedLock) noting(renew func() error) error {
	start := time.Now()
	err := renew()
	if err == nil {
		l.renewed.Store(start.UnixNano())
	}
	return err
}
