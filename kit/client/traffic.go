package client

import (
	"net/http"
	"sync/atomic"
)

// Traffic counts the requests of a process to the API server. Wrap puts it in front of a transport.
type Traffic struct {
	reads, writes, throttled, failed atomic.Uint64
	running                          atomic.Int64
}

// TrafficCount is what a Traffic has counted so far.
type TrafficCount struct {
	Reads     uint64 `json:"reads"`     // watches are counted as they begin
	Writes    uint64 `json:"writes"`    // of any kind, reviews and tokens included
	Throttled uint64 `json:"throttled"` // answered with 429: the server has too much to do
	Failed    uint64 `json:"failed"`    // answered with 500 and above, or not at all
	Running   int64  `json:"running"`   // sent and not answered yet
}

// Count returns what has been counted.
func (t *Traffic) Count() TrafficCount {
	return TrafficCount{t.reads.Load(), t.writes.Load(), t.throttled.Load(), t.failed.Load(), t.running.Load()}
}

// Wrap returns a transport that counts.
func (t *Traffic) Wrap(next http.RoundTripper) http.RoundTripper { return countingTransport{t, next} }

type countingTransport struct {
	*Traffic
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		t.reads.Add(1)
	} else {
		t.writes.Add(1)
	}
	t.running.Add(1)
	answer, err := t.next.RoundTrip(r)
	t.running.Add(-1)
	switch {
	case err != nil && r.Context().Err() == nil, err == nil && answer.StatusCode >= http.StatusInternalServerError:
		t.failed.Add(1)
	case err == nil && answer.StatusCode == http.StatusTooManyRequests:
		t.throttled.Add(1)
	}
	return answer, err
}

// WrappedRoundTripper returns the inner transport, for client-go code that looks for its dialer or TLS configuration.
func (t countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
