package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// tokenServer hands out tokens that live for an hour, and answers other requests to those who show a valid one.
type tokenServer struct {
	mu      sync.Mutex // guards the fields below
	account bool       // exists
	latency time.Duration
	clock   time.Duration // how far its clock is ahead
	silent  bool          // does not say in seconds how long a token lives
	broken  bool          // issues no tokens
	asked   int           // requests for a token
	issued  int           // token number
	made    int           // accounts
	valid   map[string]time.Time
	refuse  int      // this many valid tokens are refused
	bodies  []string // of requests that were let in
	unknown int      // requests that were refused
}

func (s *tokenServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	latency := s.latency
	s.mu.Unlock()
	time.Sleep(latency)
	s.mu.Lock()
	defer s.mu.Unlock()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/serviceaccounts"):
		s.account = true
		s.made++
		return answer(r, 201, map[string]any{"kind": "ServiceAccount", "apiVersion": "v1"})
	case strings.HasSuffix(r.URL.Path, "/token"):
		s.asked++
		if s.broken {
			return answer(r, 500, metav1.Status{})
		}
		if !s.account {
			return answer(r, 404, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404})
		}
		var request authenticationv1.TokenRequest
		if err := json.Unmarshal(body, &request); err != nil {
			return nil, err
		}
		s.issued++
		value := fmt.Sprintf("t%d", s.issued)
		if s.valid == nil {
			s.valid = map[string]time.Time{}
		}
		s.valid[value] = time.Now().Add(time.Hour)
		request.TypeMeta = metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"}
		request.Status = authenticationv1.TokenRequestStatus{Token: value, ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour + s.clock))}
		if s.silent {
			request.Spec.ExpirationSeconds = nil
		}
		return answer(r, 201, request)
	}
	value, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if until, ok := s.valid[value]; !ok || time.Now().After(until) || s.refuse > 0 {
		s.refuse = max(0, s.refuse-1)
		s.unknown++
		return answer(r, 401, metav1.Status{})
	}
	s.bodies = append(s.bodies, string(body))
	return answer(r, 200, metav1.Status{})
}

func answer(r *http.Request, code int, doc any) (*http.Response, error) {
	data, err := json.Marshal(doc)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, err
}

// client returns a transport that calls the server under an identity.
func (s *tokenServer) client(t *testing.T) (*identity, http.RoundTripper) {
	t.Helper()
	core, err := typedcorev1.NewForConfig(&rest.Config{Host: "http://server", Transport: s, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	id := &identity{account: "job-controller", core: core}
	return id, id.wrap(s)
}

func call(t *testing.T, rt http.RoundTripper, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://server/api/v1/pods", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestAMissingAccountIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokenServer{}
		_, rt := s.client(t)
		if code := call(t, rt, "x"); code != 200 || s.made != 1 || s.issued != 1 {
			t.Errorf("code %d, %d accounts made, %d tokens", code, s.made, s.issued)
		}
	})
}

func TestManyCallersShareOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokenServer{account: true, latency: 100 * time.Millisecond}
		_, rt := s.client(t)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if code := call(t, rt, "x"); code != 200 {
					t.Errorf("code %d", code)
				}
			})
		}
		wg.Wait()
		if s.issued != 1 {
			t.Errorf("%d tokens for 50 calls at once, want 1", s.issued)
		}
	})
}

// TestATokenIsRenewedBeforeItExpires also where the clocks differ, and where the server says less.
func TestATokenIsRenewedBeforeItExpires(t *testing.T) {
	for _, tc := range []struct {
		name   string
		clock  time.Duration
		silent bool
	}{{"same clock", 0, false}, {"server ahead", 3 * time.Hour, false}, {"server behind", -3 * time.Hour, false}, {"no seconds", 0, true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &tokenServer{account: true, clock: tc.clock, silent: tc.silent, latency: 10 * time.Millisecond}
				_, rt := s.client(t)
				issued := func() int {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.issued
				}
				for range 10 * 60 {
					start := time.Now()
					if code := call(t, rt, "x"); code != 200 {
						t.Fatalf("code %d", code)
					}
					if took := time.Since(start); issued() > 1 && took > 15*time.Millisecond {
						t.Errorf("a call took %s: it waited for the new token", took)
					}
					time.Sleep(time.Minute)
				}
				if n := issued(); s.unknown != 0 || n < 10 || n > 16 {
					t.Errorf("%d calls refused, %d tokens in ten hours; want none, and one each 42 to 48 minutes", s.unknown, n)
				}
			})
		})
	}
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokenServer{account: true}
		_, rt := s.client(t)
		call(t, rt, "one")
		s.refuse = 1
		if code := call(t, rt, "two"); code != 200 || s.issued != 2 || s.unknown != 1 {
			t.Errorf("code %d, %d tokens, %d refusals; want one new token and the answer", code, s.issued, s.unknown)
		}
		if got := strings.Join(s.bodies, " "); got != "one two" {
			t.Errorf("bodies = %q: the second try has to send the body again", got)
		}
		s.refuse = 100
		if code := call(t, rt, "three"); code != 401 || s.issued != 3 || s.unknown != 3 {
			t.Errorf("code %d, %d tokens, %d refusals; a new token that is refused as well is the answer", code, s.issued, s.unknown)
		}
	})
}

func TestACallerThatGivesUpLeavesTheTokenToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokenServer{account: true, latency: 5 * time.Second}
		id, rt := s.client(t)
		r, err := http.NewRequest("GET", "http://server/api/v1/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rt.RoundTrip(r.WithContext(ctx)); err == nil {
			t.Error("a caller with a second of time got an answer after five")
		}
		time.Sleep(5 * time.Second)
		if value, err := id.current(t.Context()); err != nil || value != "t1" || s.issued != 1 {
			t.Errorf("token %q, %v, %d issued; want the first one", value, err, s.issued)
		}
	})
}

func TestATokenThatCannotBeRenewedServesUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokenServer{account: true}
		_, rt := s.client(t)
		call(t, rt, "x")
		time.Sleep(50 * time.Minute)
		s.broken = true
		for range 1000 {
			if code := call(t, rt, "x"); code != 200 {
				t.Fatalf("code %d with a token that is valid", code)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if s.asked > 3 {
			t.Errorf("the server was asked for a token %d times in 10 s", s.asked)
		}
		s.broken = false
		time.Sleep(renewPause)
		call(t, rt, "x")
		synctest.Wait()
		if s.issued != 2 {
			t.Errorf("%d tokens, want a new one once the server issues them again", s.issued)
		}
	})
}

// A request with a body that can be read only once is not sent again, but the next one has a new token.
func TestARefusedTokenIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokenServer{account: true}
		_, rt := s.client(t)
		call(t, rt, "one")
		s.valid = nil // the server's signing key was changed
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://server/api/v1/pods", io.NopCloser(strings.NewReader("two")))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(r)
		if err != nil || resp.StatusCode != 401 {
			t.Fatalf("%v, %v; want 401", resp, err)
		}
		if code := call(t, rt, "three"); code != 200 || s.unknown != 1 {
			t.Errorf("code %d, %d refusals; want the next request to be sent with a new token", code, s.unknown)
		}
	})
}
