package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// guardedLock is a lease that fails as the test wants.
type guardedLock struct {
	err   error
	calls int
}

func (l *guardedLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.calls++
	return nil, nil, l.err
}
func (l *guardedLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	l.calls++
	return l.err
}
func (l *guardedLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	l.calls++
	return l.err
}
func (l *guardedLock) RecordEvent(string) {}
func (l *guardedLock) Identity() string   { return "me" }
func (l *guardedLock) Describe() string   { return "kube-system/rehearsal" }

func TestALeaseThatMayNotBeHadIsDoneWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &guardedLock{err: apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "rehearsal", errors.New("no role"))}
		e, err := New(Config{
			Lock: Optional(lock, klog.Background()), Name: "x", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Fence: NewFence(15 * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		led := false
		time.AfterFunc(time.Hour, cancel)
		err = e.Run(ctx, func(ctx context.Context) error {
			led = true
			if _, mine := e.Holder(); !mine {
				t.Error("somebody else leads")
			}
			<-ctx.Done()
			return nil
		})
		if err != nil || !led || lock.calls != 1 {
			t.Errorf("Run = %v, led %t, asked the server %d times", err, led, lock.calls)
		}
	})
}

func TestOtherFailuresOfTheLeaseCount(t *testing.T) {
	lock := &guardedLock{err: errors.New("no route")}
	o := Optional(lock, klog.Background())
	if _, _, err := o.Get(t.Context()); !errors.Is(err, lock.err) {
		t.Errorf("Get = %v", err)
	}
	if err := o.Create(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, lock.err) {
		t.Errorf("Create = %v", err)
	}
	if err := o.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, lock.err) {
		t.Errorf("Update = %v", err)
	}
}
