package kit

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery/kit/client"
)

// Outcome is how one reconcile ended.
type Outcome string

// The outcomes. What each means for the key is decided in one place, controller.file.
const (
	OutcomeDone      Outcome = "done"      // nothing more to do until the next change
	OutcomeLater     Outcome = "later"     // again after the time that the result asks for
	OutcomeConflict  Outcome = "conflict"  // someone else wrote first: again soon, not an error
	OutcomeFailed    Outcome = "failed"    // again with back-off
	OutcomeTerminal  Outcome = "terminal"  // failed, and no retry can cure it
	OutcomeDropped   Outcome = "dropped"   // the namespace is being deleted: nothing to do
	OutcomePanicked  Outcome = "panicked"  // again with back-off
	OutcomeCancelled Outcome = "cancelled" // the process is stopping
)

const numOutcomes = 8

// outcomes lists all outcomes, for metrics that start at zero.
var outcomes = [numOutcomes]Outcome{OutcomeDone, OutcomeLater, OutcomeConflict, OutcomeFailed, OutcomeTerminal, OutcomeDropped, OutcomePanicked, OutcomeCancelled}

// index returns the place of an outcome in outcomes.
func (o Outcome) index() uint8 {
	for i, known := range outcomes {
		if known == o {
			return uint8(i)
		}
	}
	return numOutcomes - 1
}

// classify names how a reconcile ended. The first case that applies counts: a panic is reported even while stopping.
func classify(ctx context.Context, res Result, err error) Outcome {
	var p *PanicError
	switch {
	case err == nil && res.After > 0:
		return OutcomeLater
	case err == nil:
		return OutcomeDone
	case errors.As(err, &p):
		return OutcomePanicked
	case stopping(ctx):
		return OutcomeCancelled
	case IsTerminal(err):
		return OutcomeTerminal
	case allOf(err, client.IsNamespaceTerminating):
		return OutcomeDropped
	case allOf(err, apierrors.IsConflict):
		return OutcomeConflict
	}
	return OutcomeFailed
}

// allOf reports whether is holds for every error joined in err. A quiet outcome must not hide the one call among several
// that failed for another reason.
func allOf(err error, is func(error) bool) bool {
	for at := err; at != nil; at = errors.Unwrap(at) {
		many, ok := at.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		for _, e := range many.Unwrap() {
			if !allOf(e, is) {
				return false
			}
		}
		return true
	}
	return is(err)
}

// RetryFrom marks an error for which a quick retry is useless, such as an exhausted quota: the first retry comes after
// that time, and the delay doubles from there as usual. RetryFrom of nil is nil.
func RetryFrom(first time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &patientError{err, first}
}

type patientError struct {
	error
	first time.Duration
}

func (e *patientError) Unwrap() error { return e.error }

// firstRetry returns the time before the first retry after an error.
func firstRetry(err error) time.Duration {
	var p *patientError
	if errors.As(err, &p) {
		return p.first
	}
	return backoffBase
}

// retry enqueues the key again with exponential back-off that begins at first, but no later than the result asks for. It
// returns the delay.
func (c *controller[K]) retry(key K, first time.Duration, res Result) time.Duration {
	c.failures.When(key)
	doublings := min(max(c.queue.NumRequeues(key)-1, 0), 20)
	again := min(max(backoffBase, min(first, backoffCap))<<doublings, backoffCap)
	if res.After > 0 {
		again = min(again, res.After)
	}
	c.queue.AddAfter(key, again)
	return again
}
