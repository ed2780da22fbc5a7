package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"orrery/kit/client"
)

type answering func(*http.Request) (*http.Response, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTrafficIsCounted(t *testing.T) {
	var traffic client.Traffic
	code, fail := 200, error(nil)
	next := traffic.Wrap(answering(func(*http.Request) (*http.Response, error) {
		if n := traffic.Count().Running; n != 1 {
			t.Errorf("%d requests under way, want 1", n)
		}
		return &http.Response{StatusCode: code}, fail
	}))
	send := func(ctx context.Context, method string, answer int, err error) {
		code, fail = answer, err
		r, _ := http.NewRequestWithContext(ctx, method, "http://server/", nil)
		_, _ = next.RoundTrip(r)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	send(t.Context(), "GET", 200, nil)
	send(t.Context(), "PATCH", 409, nil)
	send(t.Context(), "POST", 429, nil)
	send(t.Context(), "GET", 503, nil)
	send(t.Context(), "DELETE", 0, errors.New("no route"))
	send(ended, "GET", 0, context.Canceled) // nobody wants the answer any more
	want := client.TrafficCount{Reads: 3, Writes: 3, Throttled: 1, Failed: 2}
	if got := traffic.Count(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
