package health

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ask serves one request without a network.
func ask(handler http.Handler, method, target string, header http.Header) (status int, body string, response *http.Response) {
	req := httptest.NewRequest(method, target, nil)
	if header != nil {
		req.Header = header
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, req)
	response = recorder.Result()
	content, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(content), response
}

func failing(name string) Check {
	return Func(name, func(*http.Request) error { return errors.New("secret reason") })
}

func passing(name string) Check {
	return Func(name, func(*http.Request) error { return nil })
}

func healthMux(h *Checks) *pages {
	mux := &pages{}
	h.Install(mux)
	return mux
}

// pages is a mux.
type pages struct{ http.ServeMux }

func (p *pages) HandleUnlisted(path string, handler http.Handler) { p.Handle(path, handler) }

func TestHealthPages(t *testing.T) {
	sound, degraded, broken := New(), New(), New()
	for _, h := range []*Checks{sound, degraded, broken} {
		h.Add(Component, passing("job-controller"))
	}
	sound.Add(Process, passing("leaderElection"))
	degraded.Add(Process, passing("leaderElection"))
	degraded.Add(Component, failing("node-controller/taints"))
	broken.Add(Process, failing("leaderElection"))

	for _, tc := range []struct {
		name   string
		health *Checks
		target string
		status int
		body   string
	}{
		{"sound", sound, "/healthz", 200, "ok"},
		{"sound, verbose", sound, "/healthz?verbose", 200, "[+]ping ok\n[+]job-controller ok\n[+]leaderElection ok\nhealthz check passed\n"},
		{"sound, live", sound, "/livez?verbose=1", 200, "[+]ping ok\n[+]leaderElection ok\nlivez check passed\n"},
		{"sound, one check", sound, "/healthz/leaderElection", 200, "ok"},
		{"unknown check", sound, "/healthz/nothing", 404, "404 page not found\n"},
		{"controllers are not a matter of liveness", sound, "/livez/job-controller", 404, "404 page not found\n"},

		{"degraded is healthy", degraded, "/healthz", 200, "ok"},
		{"degraded says so", degraded, "/healthz?verbose", 200, "[+]ping ok\n[+]job-controller ok\n[+]leaderElection ok\n[!]node-controller/taints degraded: reason withheld\nhealthz check passed\n"},
		{"degraded is alive", degraded, "/livez", 200, "ok"},
		{"degraded is not ready", degraded, "/readyz", 500, "[+]ping ok\n[+]job-controller ok\n[+]leaderElection ok\n[-]node-controller/taints failed: reason withheld\nreadyz check failed\n"},
		{"degraded, its check", degraded, "/healthz/node-controller/taints", 500, "internal server error: secret reason\n"},
		{"degraded, excluded", degraded, "/readyz?exclude=node-controller/taints&exclude=ping", 200, "ok"},
		{"degraded, excluded, verbose", degraded, "/readyz?verbose&exclude=node-controller/taints&exclude=typo", 200,
			"[+]node-controller/taints excluded: ok\n[+]ping ok\n[+]job-controller ok\n[+]leaderElection ok\nwarn: some health checks cannot be excluded: no matches for \"typo\"\nreadyz check passed\n"},

		{"broken", broken, "/healthz", 500, "[+]ping ok\n[+]job-controller ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n"},
		{"broken is dead", broken, "/livez", 500, "[+]ping ok\n[-]leaderElection failed: reason withheld\nlivez check failed\n"},
		{"broken is not ready", broken, "/readyz?exclude=leaderElection", 200, "ok"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if status, body, _ := ask(healthMux(tc.health), http.MethodGet, tc.target, nil); status != tc.status || body != tc.body {
				t.Errorf("got %d %q\nwant %d %q", status, body, tc.status, tc.body)
			}
		})
	}
}

func TestChecksMayBeAddedAndReplacedWhileServing(t *testing.T) {
	h := New()
	mux := healthMux(h)
	h.Add(Component, failing("late"))
	if status, _, _ := ask(mux, http.MethodGet, "/readyz", nil); status != http.StatusInternalServerError {
		t.Errorf("a check added late does not count: %d", status)
	}
	h.Add(Component, passing("late"))
	if status, body, _ := ask(mux, http.MethodGet, "/readyz?verbose", nil); status != http.StatusOK || strings.Count(body, "late") != 1 {
		t.Errorf("after replacing it: %d %q", status, body)
	}
}

func TestAPoisonedCheckCannotStarveAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		h := New()
		h.Add(Component, Func("panics", func(*http.Request) error { panic("poison") }))
		h.Add(Component, Func("hangs", func(*http.Request) error {
			calls.Add(1)
			<-release
			return nil
		}))
		mux := healthMux(h)
		for range 3 {
			start := time.Now()
			status, body, _ := ask(mux, http.MethodGet, "/healthz?verbose", nil)
			if status != http.StatusOK || !strings.Contains(body, "[!]panics degraded") || !strings.Contains(body, "[!]hangs degraded") {
				t.Errorf("%d %q", status, body)
			}
			if took := time.Since(start); took != componentLimit {
				t.Errorf("took %s, want %s", took, componentLimit)
			}
		}
		if _, body, _ := ask(mux, http.MethodGet, "/readyz/hangs", nil); !strings.Contains(body, "no answer for 4s") {
			t.Errorf("the check's own page says %q", body)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("a hanging check was called %d times", n)
		}
		close(release)
		synctest.Wait()
		if status, _, _ := ask(mux, http.MethodGet, "/readyz/hangs", nil); status != http.StatusOK {
			t.Errorf("after it has come back: %d", status)
		}
	})
}
