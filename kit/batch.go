package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Batch calls f for 0 to n-1, at most limit at a time, and returns when all have ended. It returns the errors of all
// calls as one, whose text is that of a few; panics are among them. Calls not yet begun are left out, with an error, once
// ctx has ended or the controller is stopping.
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
			if errs = append(errs, errUncalled); ctx.Err() != nil {
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

// BatchFirst is Batch, but its error is that of the first call, in their order, that returned one, whichever came first:
// for where what refuses one call often refuses all, and the reason is shown to users and has to stay as it is.
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
	return err // of a panic, or of calls that were left out
}

// batchError is the failures of many calls. The text is that of a few: thousands would fill a log with one line.
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

// errUncalled marks a call that was left out because the context had ended or the controller is stopping.
var errUncalled = errors.New("not called: the controller is stopping")

// Uncalled reports whether an error is, or has among others, that of a call of Batch or SlowStart that was left out as the
// controller is stopping. It says nothing of the object that the call was about, and belongs in no status.
func Uncalled(err error) bool { return errors.Is(err, errUncalled) }

// slowStartLimit bounds the calls of a SlowStart that are under way at once. The server takes a hundred requests at a time
// on one connection. For more, the client opens another connection, which costs more than to wait for the first to end.
const slowStartLimit = 64

// SlowStart calls f n times in batches of 1, 2, 4 and so on, each batch at once as far as that makes sense, and stops
// after the first batch with a failure, so that a refusal that concerns all calls (a quota, say) is met once and not n
// times. It returns how many calls succeeded and the first error.
func SlowStart(ctx context.Context, n int, f func(ctx context.Context, i int) error) (done int, err error) {
	for size := 1; done < n && err == nil; size *= 2 {
		size = min(size, n-done)
		errs := make([]error, size)
		for i := range errs {
			errs[i] = errUncalled
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
