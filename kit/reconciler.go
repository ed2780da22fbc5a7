package kit

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// Key names an object: namespace (empty for cluster scope) and name.
type Key = client.Key

// KeyOf returns the key of an object.
var KeyOf = client.KeyOf

// Reconciler brings the cluster closer to the desired state of what one key names. It is never called for the same key
// twice at once, but for different keys concurrently. It must not depend on what caused the call.
type Reconciler[K comparable] interface {
	Reconcile(ctx context.Context, key K) (Result, error)
}

// Func makes a Reconciler of a function.
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// Reconcile calls f.
func (f Func[K]) Reconcile(ctx context.Context, key K) (Result, error) { return f(ctx, key) }

// ObjectReconciler is a Reconciler that is handed the cached object, which is shared and read-only.
type ObjectReconciler[P client.Object] interface {
	Reconcile(ctx context.Context, obj P) (Result, error)
}

// ObjectFunc makes an ObjectReconciler of a function.
type ObjectFunc[P client.Object] func(ctx context.Context, obj P) (Result, error)

// Reconcile calls f.
func (f ObjectFunc[P]) Reconcile(ctx context.Context, obj P) (Result, error) { return f(ctx, obj) }

// Result says when to reconcile the key again without a change; the zero value means not at all. Together with an error
// it bounds the back-off, so that a deadline is not missed because something else fails.
type Result struct {
	// After is the time to wait; 0 or less means no further call.
	After time.Duration
}

// Done is the result of a reconcile that needs no further call.
var Done = Result{}

// MaxSeconds is the greatest number of seconds that a time.Duration holds, some 292 years. Many API fields take more;
// a limit beyond it is as good as none.
const MaxSeconds = int64(math.MaxInt64 / time.Second)

// After asks for another call in d; 0 or less is Done.
func After(d time.Duration) Result { return Result{After: d} }

// Sooner returns the result that asks for the earlier reconcile.
func Sooner(a, b Result) Result {
	switch {
	case a.After <= 0:
		return b
	case b.After <= 0 || a.After < b.After:
		return a
	}
	return b
}

// Terminal marks an error that no retry can cure: it is counted and logged, and the key waits for its next change.
// Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ error }

func (e *terminalError) Unwrap() error { return e.error }

// IsTerminal reports whether the error or one that it wraps was marked by Terminal. Joined errors are terminal only if
// all of them are.
func IsTerminal(err error) bool {
	for at := err; at != nil; at = errors.Unwrap(at) {
		if _, ok := at.(*terminalError); ok {
			return true
		}
		if many, ok := at.(interface{ Unwrap() []error }); ok {
			return !slices.ContainsFunc(many.Unwrap(), func(e error) bool { return !IsTerminal(e) })
		}
	}
	return false
}

// Objects returns a Reconciler that looks the object up in the store and passes it on. A key without an object is
// done: a controller that has to act when its object is gone reconciles keys itself.
func Objects[P client.Object](store cache.Store[P], r ObjectReconciler[P]) Reconciler[Key] {
	return Func[Key](func(ctx context.Context, key Key) (Result, error) {
		obj, ok := store.Get(key)
		if !ok {
			return Done, nil
		}
		return r.Reconcile(ctx, obj)
	})
}
