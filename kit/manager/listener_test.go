package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"orrery/kit/manager"
	"orrery/kit/webhook"
)

// nowhere is the configuration of a server that does not answer, for what needs none.
func nowhere() *rest.Config { return &rest.Config{Host: "http://127.0.0.1:1"} }

func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestWhatIsWrongIsAnErrorOfNew(t *testing.T) {
	used := taken(t)
	page := http.NotFoundHandler()
	for _, tc := range []struct {
		name string
		o    manager.Options
		want []string
	}{
		{"metrics port in use", manager.Options{Metrics: manager.Listener{Address: used}}, []string{"metrics", used, "address already in use"}},
		{"health port in use", manager.Options{Health: manager.Listener{Address: used}}, []string{"health", used, "address already in use"}},
		{"no such address", manager.Options{Health: manager.Listener{Address: "256.0.0.1:80"}}, []string{"256.0.0.1:80"}},
		{"no port", manager.Options{Metrics: manager.Listener{Address: "localhost"}}, []string{"localhost", "missing port"}},
		{"both", manager.Options{Metrics: manager.Listener{Address: used}, Health: manager.Listener{Address: used}}, []string{"metrics on", "health on"}},
		{"page twice", manager.Options{Metrics: manager.Listener{Address: "127.0.0.1:0", Handlers: map[string]http.Handler{"/metrics": page}}}, []string{"metrics pages", "/metrics"}},
		{"no certificate", manager.Options{Webhook: &webhook.Options{CertDir: t.TempDir()}}, []string{"tls.crt"}},
		{"nonsense", manager.Options{Name: " ", ShutdownTimeout: -1, Election: manager.Election{Enabled: true}}, []string{"ShutdownTimeout", "Election.Namespace"}},
		{"lease timings", manager.Options{Election: manager.Election{Enabled: true, Namespace: "x", LeaseDuration: time.Second}}, []string{"leaseDuration must be greater"}},
		{"lock kind", manager.Options{Election: manager.Election{Enabled: true, Namespace: "x", Kind: "endpoints"}}, []string{"endpoints"}},
	} {
		if tc.o.Name == "" {
			tc.o.Name = "test"
		}
		m, err := manager.New(nowhere(), tc.o)
		if err == nil {
			m.Close()
			t.Errorf("%s: no error", tc.name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", tc.name, err, want)
			}
		}
	}
	if _, err := manager.New(nowhere(), manager.Options{}); err == nil || !strings.Contains(err.Error(), "Name") {
		t.Errorf("without a name: %v", err)
	}
}

func TestPagesAreServedUntilTheEnd(t *testing.T) {
	var ill error
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	local := manager.Listener{Address: "127.0.0.1:0", Handlers: map[string]http.Handler{"/hello": hello}}
	m, err := manager.New(nowhere(), manager.Options{
		Name: "test", Metrics: local, Health: manager.Listener{Address: "127.0.0.1:0"}, Server: manager.Server{Skip: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.AddReadyCheck("stomach", func(*http.Request) error { return ill })
	m.AddHealthCheck("heart", func(*http.Request) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	get := func(pages, path string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.Address(pages).String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for _, tc := range []struct{ pages, path, want string }{
		{"metrics", "/hello", "hello"}, {"metrics", "/metrics", "go_goroutines"}, {"metrics", "/metrics", "rest_client_"},
		{"health", "/livez?verbose", "[+]heart ok"}, {"health", "/readyz?verbose", "[+]stomach ok"},
	} {
		if code, body := get(tc.pages, tc.path); code != 200 || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %.200s, want %q", tc.path, code, body, tc.want)
		}
	}
	ill = errors.New("too much")
	if code, _ := get("health", "/readyz"); code != 500 {
		t.Errorf("/readyz: %d while a part is ill", code)
	}
	if code, body := get("health", "/healthz"); code != 200 || body != "ok" {
		t.Errorf("/healthz: %d %s", code, body)
	}
	address := m.Address("metrics").String()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Start = %v", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the port was not given back: %v", err)
	}
	_ = l.Close()
	if m.Address("elsewhere") != nil {
		t.Error("pages that are not served have an address")
	}
}
