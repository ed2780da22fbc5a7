package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Batch calls f for 0 to n-1, at most limit at a time, and returns when all calls have ended. It returns their errors and
// panics as one error, whose text spells out only the first few. Once ctx has ended or the controller is stopping, no
// further call is begun, and that is among the errors.
func Batch(ctx context.Context, n, limit int, f func(ctx context.Context, i int) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards next and errs
		next int
		errs []error
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case next >= n:
			return 0, false
		case stopping(ctx):
			if errs = append(errs, errNotCalled); ctx.Err() != nil {
				errs = append(errs, ctx.Err())
			}
			next = n
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(n, max(limit, 1)) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := Guard(func() error { return f(ctx, i) }); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if len(errs) == 0 {
		return nil
	}
	return &batchError{errs}
}

// BatchFirst is Batch, but of all errors it returns the one with the lowest index, whichever came first. It is for errors
// that are shown to users, in an event or condition, where all calls often fail for the same reason: the text must not
// change with the order in which they happen to fail.
func BatchFirst(ctx context.Context, n, limit int, f func(ctx context.Context, i int) error) error {
	failed := make([]error, n)
	err := Batch(ctx, n, limit, func(ctx context.Context, i int) error {
		failed[i] = f(ctx, i)
		return nil
	})
	for _, e := range failed {
		if e != nil {
			return e
		}
	}
	return err // from a panic, or because calls were not begun
}

// batchError is the failures of many calls. Its text spells out only a few: thousands would make one very long log line.
type batchError struct{ all []error }

// shownErrors is how many failures of a batch are spelt out.
const shownErrors = 10

// Error implements error.
func (e *batchError) Error() string {
	text := errors.Join(e.all[:min(len(e.all), shownErrors)]...).Error()
	if more := len(e.all) - shownErrors; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// Unwrap returns all failures.
func (e *batchError) Unwrap() []error { return e.all }

// errNotCalled stands for a call that was not begun because the context had ended or the controller is stopping.
var errNotCalled = errors.New("not called: the controller is stopping")

// IsNotCalled reports whether an error is, or contains, that of a call which Batch or SlowStart did not begin because the
// controller is stopping. Such an error says nothing about the object of the call, and belongs in no status.
func IsNotCalled(err error) bool { return errors.Is(err, errNotCalled) }

// slowStartLimit bounds the concurrent calls of a SlowStart. The server takes a hundred requests at a time on one
// connection. For more, the client opens another one, which costs more than waiting for a call to end.
const slowStartLimit = 64

// SlowStart calls f n times in batches of 1, 2, 4 and so on. The calls of a batch run concurrently, up to a limit. It stops
// after the first batch with a failure, so that a refusal that concerns all calls (a quota, say) costs a few calls and not
// n. It returns how many calls succeeded and the first error.
func SlowStart(ctx context.Context, n int, f func(ctx context.Context, i int) error) (done int, err error) {
	for size := 1; done < n && err == nil; size *= 2 {
		size = min(size, n-done)
		errs := make([]error, size)
		for i := range errs {
			errs[i] = errNotCalled
		}
		base := done
		_ = Batch(ctx, size, slowStartLimit, func(ctx context.Context, i int) error {
			errs[i] = Guard(func() error { return f(ctx, base+i) })
			return nil
		})
		for _, e := range errs {
			switch {
			case e == nil:
				done++
			case err == nil:
				err = e
			}
		}
	}
	return done, err
}
