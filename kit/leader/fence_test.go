package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// noLock is a lock whose writes do as err says.
type noLock struct {
	resourcelock.Interface
	err error
}

func (l *noLock) Identity() string                                                { return "me" }
func (l *noLock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }
func (l *noLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

var holding = resourcelock.LeaderElectionRecord{HolderIdentity: "me"}

func TestTheFenceClosesWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Fence{duration: 15 * time.Second}
		lock := &noLock{}
		l := fencedLock{lock, f}
		if f.Open(time.Now()) {
			t.Error("open before the lease was taken")
		}
		if err := l.Create(t.Context(), holding); err != nil || !f.Open(time.Now()) {
			t.Errorf("not open after the lease was taken: %v", err)
		}
		time.Sleep(14 * time.Second)
		if err := l.Update(t.Context(), holding); err != nil {
			t.Fatal(err)
		}
		lock.err = errors.New("no route")
		time.Sleep(14 * time.Second)
		if err := l.Update(t.Context(), holding); !errors.Is(err, lock.err) || !f.Open(time.Now()) {
			t.Errorf("a failed renewal (%v) must not close it before the lease ends", err)
		}
		time.Sleep(time.Second)
		if f.Open(time.Now()) {
			t.Error("open a lease duration after the last renewal")
		}
		lock.err = nil
		if err := l.Update(t.Context(), holding); err != nil || !f.Open(time.Now()) {
			t.Error("a late renewal that succeeds opens it again: nobody else has the lease")
		}
		f.Close()
		if err := l.Update(t.Context(), holding); err != nil || f.Open(time.Now()) {
			t.Error("open after it was closed for good")
		}
	})
}

func TestAReleaseClosesTheFenceFirst(t *testing.T) {
	f := &Fence{duration: 15 * time.Second}
	l := fencedLock{&noLock{}, f}
	if err := l.Update(t.Context(), holding); err != nil || !f.Open(time.Now()) {
		t.Fatalf("not open while holding: %v", err)
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || f.Open(time.Now()) {
		t.Errorf("open after the lease was given away: %v", err)
	}
}

func TestAClockThatJumpsDoesNotKeepTheFenceOpen(t *testing.T) {
	f := &Fence{duration: 15 * time.Second}
	now := time.Now()
	f.renewed.Store(&now)
	suspended := now.Round(0).Add(time.Hour) // the wall clock alone has gone on
	if f.Open(suspended) {
		t.Error("open after an hour asleep")
	}
	if later := now.Add(20 * time.Second); f.Open(later) {
		t.Error("open after the lease duration")
	}
	back := now.Round(0).Add(-time.Hour) // set back since the renewal, which the monotonic clock of now does not show
	f.renewed.Store(&back)
	if f.Open(now) {
		t.Error("open although the last renewal is an hour ago on the wall clock")
	}
}

func TestTheFenceRefusesWritesAndLetsReadsPass(t *testing.T) {
	f := &Fence{duration: time.Second}
	sent := 0
	next := f.Wrap(roundTrip(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: 200}, nil
	}))
	for _, tc := range []struct {
		method string
		passes bool
	}{{"GET", true}, {"HEAD", true}, {"POST", false}, {"PUT", false}, {"PATCH", false}, {"DELETE", false}} {
		body := &closing{Reader: strings.NewReader("x")}
		r, err := http.NewRequest(tc.method, "http://server/api/v1/pods", body)
		if err != nil {
			t.Fatal(err)
		}
		before := sent
		resp, err := next.RoundTrip(r)
		if tc.passes != (sent > before) || tc.passes != (err == nil) {
			t.Errorf("%s: sent %t, %v; want it to pass: %t", tc.method, sent > before, err, tc.passes)
		}
		if !tc.passes && (!errors.Is(err, ErrFenced) || !body.closed || resp != nil) {
			t.Errorf("%s: error %v, body closed %t", tc.method, err, body.closed)
		}
	}
	now := time.Now()
	f.renewed.Store(&now)
	r, _ := http.NewRequest("POST", "http://server/api/v1/pods", nil)
	if _, err := next.RoundTrip(r); err != nil {
		t.Errorf("refused while the lease is held: %v", err)
	}
	if !(&Fence{}).Open(time.Now()) {
		t.Error("without election the fence is always open")
	}
}

// TestAWriteThatWaitsForItsTurnIsRefusedToo: an HTTP/2 connection has few streams, and a request waits for one inside
// the transport.
func TestAWriteThatWaitsForItsTurnIsRefusedToo(t *testing.T) {
	for _, again := range []bool{false, true} {
		f := &Fence{duration: time.Hour}
		now := time.Now()
		f.renewed.Store(&now)
		next := f.Wrap(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.ContentLength != 4 {
				t.Errorf("length %d, want 4", r.ContentLength)
			}
			first := make([]byte, 2)
			if _, err := io.ReadFull(r.Body, first); err != nil || string(first) != "bo" {
				t.Errorf("read %q, %v while the lease is held", first, err)
			}
			f.Close()
			body := r.Body
			if again {
				var err error
				if body, err = r.GetBody(); err != nil {
					t.Fatal(err)
				}
			}
			rest, err := io.ReadAll(body)
			if len(rest) != 0 || !errors.Is(err, ErrFenced) {
				t.Errorf("read %q, %v after it was lost", rest, err)
			}
			return nil, err
		}))
		r, err := http.NewRequest("POST", "http://server/api/v1/pods", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := next.RoundTrip(r); !errors.Is(err, ErrFenced) {
			t.Errorf("error = %v", err)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// Another process goes by what the lease says, and that is in whole seconds.
func TestTheFenceGoesByTheDurationThatTheLeaseNames(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{2900 * time.Millisecond: 2 * time.Second, 15 * time.Second: 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := NewFence(lease)
			if err := (fencedLock{&noLock{}, f}).Create(t.Context(), holding); err != nil {
				t.Fatal(err)
			}
			time.Sleep(want - time.Millisecond)
			if !f.Open(time.Now()) {
				t.Errorf("a lease of %v: shut before %v", lease, want)
			}
			time.Sleep(time.Millisecond)
			if f.Open(time.Now()) {
				t.Errorf("a lease of %v: open after %v", lease, want)
			}
		})
	}
	if f := NewFence(0); !f.Open(time.Now()) {
		t.Error("shut without an election")
	}
	if f := NewFence(time.Millisecond); f.Open(time.Now()) {
		t.Error("open without a lease")
	}
}
