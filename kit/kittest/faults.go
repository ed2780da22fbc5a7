package kittest

import (
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
)

// Reaction is a fault that happens to a call. Only the first field that is set is used.
type Reaction struct {
	// Drop carries out the call and then breaks the connection, so that the outcome is unknown to the caller.
	Drop bool
	// Err breaks the connection before the call is carried out.
	Err error
	// Status is returned to the caller; see Refuse.
	Status *apierrors.StatusError
}

func (r *Reaction) response(h *http.Request) *http.Response { return failure(h, r.Status) }

// Refuse returns a reaction that answers with a status code: 403, 409, 422, 429, 500, 503, 504 and so on.
func Refuse(code int, message string) *Reaction {
	err := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, true)
	if code == http.StatusForbidden {
		err.ErrStatus.Reason = metav1.StatusReasonForbidden
	}
	err.ErrStatus.Message = message
	return &Reaction{Status: err}
}

// React calls f before every call that the rules allow. The first function that returns a reaction decides. It runs without
// any lock and may use the API.
func (a *API) React(f func(*Request) *Reaction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reactors = append(a.reactors, f)
}

// Unreact removes all functions added by React.
func (a *API) Unreact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reactors = nil
}

func (a *API) react(r *Request) *Reaction {
	a.mu.Lock()
	all := a.reactors
	a.calls++
	a.mu.Unlock()
	for _, f := range all {
		if reaction := f(r); reaction != nil {
			return reaction
		}
	}
	return nil
}

// DelayWatch delays the watches of a kind: from now on events are delivered d after they happened.
func (a *API) DelayWatch(gvk schema.GroupVersionKind, d time.Duration) {
	a.withTable(gvk, func(t *table) { t.delay = d })
}

// FreezeWatch holds back the events of a kind, or, with false, releases them.
func (a *API) FreezeWatch(gvk schema.GroupVersionKind, on bool) {
	a.withTable(gvk, func(t *table) {
		t.frozen = on
		for _, s := range t.streams {
			s.freeze(on)
		}
	})
}

// BreakWatch closes the watches of a kind. Clients resume from the last version that they have seen.
func (a *API) BreakWatch(gvk schema.GroupVersionKind) {
	a.withTable(gvk, func(t *table) {
		for _, s := range t.streams {
			s.drop()
		}
		t.streams = nil
	})
}

// Compact closes the watches of a kind and drops its history, so that clients have to list again. Deletes that they have
// not seen reach them as tombstones.
func (a *API) Compact(gvk schema.GroupVersionKind) {
	a.withTable(gvk, func(t *table) {
		t.compacted, t.history = a.store.version+1, nil
		a.store.version++
		for _, s := range t.streams {
			s.drop()
		}
		t.streams = nil
	})
}

func (a *API) withTable(gvk schema.GroupVersionKind, f func(*table)) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.registry.byKind[gvk]
	if r == nil {
		a.t.Fatalf("kittest: unknown kind %s", gvk)
	}
	f(a.store.table(r.groupResource()))
}

// drop ends a watch and discards the events that have not been read yet.
func (s *stream) drop() {
	s.mu.Lock()
	s.items, s.part = nil, nil
	s.mu.Unlock()
	s.end()
}

// zero clears an object before it is decoded into.
func zero(obj client.Object) {
	v := reflect.ValueOf(obj).Elem()
	v.Set(reflect.Zero(v.Type()))
}
