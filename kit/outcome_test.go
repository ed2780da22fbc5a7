package kit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAnErrorOfEachKindHasItsOutcome(t *testing.T) {
	gr := schema.GroupResource{Resource: "pods"}
	boom, conflict := errors.New("boom"), apierrors.NewConflict(gr, "p", errors.New("modified"))
	going := apierrors.NewForbidden(gr, "p", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	panicked := Guard(func() error { panic("boom") })
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name string
		ctx  context.Context
		res  Result
		err  error
		want Outcome
	}{
		{"nothing", t.Context(), Done, nil, OutcomeDone},
		{"a time", t.Context(), After(time.Second), nil, OutcomeLater},
		{"a time that has passed", t.Context(), After(-time.Second), nil, OutcomeDone},
		{"a time and an error", t.Context(), After(time.Second), boom, OutcomeFailed},
		{"an error", t.Context(), Done, boom, OutcomeFailed},
		{"a forbidden call", t.Context(), Done, apierrors.NewForbidden(gr, "p", boom), OutcomeFailed},
		{"a conflict", t.Context(), Done, fmt.Errorf("update pod: %w", conflict), OutcomeConflict},
		{"calls of which all met a conflict", t.Context(), Done, errors.Join(conflict, conflict), OutcomeConflict},
		{"calls of which one met a conflict and another failed", t.Context(), Done, errors.Join(conflict, boom), OutcomeFailed},
		{"already exists", t.Context(), Done, apierrors.NewAlreadyExists(gr, "p"), OutcomeFailed},
		{"a namespace that goes", t.Context(), Done, fmt.Errorf("create pod: %w", going), OutcomeDropped},
		{"calls of which all hit a namespace that goes", t.Context(), Done, errors.Join(going, going), OutcomeDropped},
		{"calls of which one did", t.Context(), Done, fmt.Errorf("create pods: %w", errors.Join(going, boom)), OutcomeFailed},
		{"terminal", t.Context(), Done, fmt.Errorf("x: %w", Terminal(boom)), OutcomeTerminal},
		{"terminal for several reasons", t.Context(), Done, Terminal(errors.Join(boom, conflict)), OutcomeTerminal},
		{"calls of which all are terminal", t.Context(), Done, errors.Join(Terminal(boom), Terminal(boom)), OutcomeTerminal},
		{"calls of which one is not terminal", t.Context(), Done, errors.Join(Terminal(boom), boom), OutcomeFailed},
		{"a panic", t.Context(), Done, fmt.Errorf("x: %w", panicked), OutcomePanicked},
		{"a panic in a batch", t.Context(), Done, errors.Join(boom, panicked), OutcomePanicked},
		{"an error while stopping", ended, Done, boom, OutcomeCancelled},
		{"success while stopping", ended, Done, nil, OutcomeDone},
		{"throttled", t.Context(), Done, apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "get", gr, "", "", 1, true), OutcomeFailed},
	} {
		if got := classify(c.ctx, c.res, c.err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if Terminal(nil) != nil {
		t.Error("Terminal(nil) is an error")
	}
}

func TestSoonerTakesTheEarlierCall(t *testing.T) {
	for _, c := range [][3]time.Duration{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}, {-1, 5, 5}} {
		if got := Sooner(After(c[0]), After(c[1])); got.After != c[2] {
			t.Errorf("Sooner(%d, %d) = %d, want %d", c[0], c[1], got.After, c[2])
		}
	}
}
