package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrFenced is what a controller's write gets once this process may no longer be the leader.
var ErrFenced = errors.New("write refused: the leader lease is not held")

// Fence keeps a process that lost its lease from writing, whatever its goroutines are still doing. It closes by
// itself when no renewal has succeeded for a lease duration: a process that was paused, and whose lease another one has
// taken meanwhile, writes nothing when it continues, even before it looks at the lease.
type Fence struct {
	duration time.Duration             // of the lease; 0: no election, always open
	renewed  atomic.Pointer[time.Time] // start of the last successful renewal; nil: none
	closed   atomic.Bool
}

// NewFence returns a fence for a lease of that duration. With 0, for a process that takes part in no election, it is open
// until it is closed. A lease records whole seconds only, after which others take it, so fractions do not count.
func NewFence(lease time.Duration) *Fence {
	return &Fence{duration: cmp.Or(lease.Truncate(time.Second), lease)}
}

// Open reports whether writing is allowed now. Both clocks have to agree: the monotonic one stands still while a machine
// is suspended, and the wall clock may be set back.
func (f *Fence) Open(now time.Time) bool {
	if f.closed.Load() {
		return false
	}
	if f.duration == 0 {
		return true
	}
	renewed := f.renewed.Load()
	return renewed != nil && now.Sub(*renewed) < f.duration && now.Round(0).Sub(renewed.Round(0)) < f.duration
}

// Close ends all writing for good.
func (f *Fence) Close() { f.closed.Store(true) }

// Wrap returns a transport that refuses writes while the fence is shut. Reads pass.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper { return fencedTransport{f, next} }

type fencedTransport struct {
	*Fence
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t fencedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return t.next.RoundTrip(r)
	}
	if !t.Open(time.Now()) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrFenced)
	}
	return t.next.RoundTrip(t.withFencedBody(r))
}

// withFencedBody returns the request with a body that cannot be read once the fence is shut. After the check in RoundTrip a
// request may wait long for its turn on a busy connection, or through a pause of the process. The body is sent last, and
// the server drops a request whose body is cut off.
func (f *Fence) withFencedBody(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	c := r.WithContext(r.Context())
	c.Body = fencedBody{r.Body, f}
	if again := r.GetBody; again != nil {
		c.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return fencedBody{body, f}, nil
		}
	}
	return c
}

type fencedBody struct {
	io.ReadCloser
	*Fence
}

// Read implements io.Reader.
func (b fencedBody) Read(p []byte) (int, error) {
	if !b.Open(time.Now()) {
		return 0, ErrFenced
	}
	return b.ReadCloser.Read(p)
}

// Close implements io.Closer. Without it the Close of the embedded Fence would be ambiguous.
func (b fencedBody) Close() error { return b.ReadCloser.Close() }

// fencedLock notes each successful renewal of the lease.
type fencedLock struct {
	resourcelock.Interface
	*Fence
}

// Create implements resourcelock.Interface.
func (l fencedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.noting(func() error { return l.Interface.Create(ctx, r) })
}

// Update implements resourcelock.Interface. An update that names no holder releases the lease, so all writing ends before
// it is sent: the election also releases it after a failure to renew, when the loops still run.
func (l fencedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		l.Close()
		return l.Interface.Update(ctx, r)
	}
	return l.noting(func() error { return l.Interface.Update(ctx, r) })
}

// noting measures the lease from before the request: other processes measure it from when they see the change, which is
// later.
func (l fencedLock) noting(renew func() error) error {
	start := time.Now()
	err := renew()
	if err == nil {
		l.renewed.Store(&start)
	}
	return err
}
