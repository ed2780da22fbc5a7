package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"orrery/options/serving"
)

// testConfig returns a configuration on a free port of this machine, with the defaults of the flags.
func testConfig(t *testing.T) Config {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return Config{
		Secure: serving.NewSecureOptions(), Authentication: serving.NewAuthenticationOptions(), Authorization: serving.NewAuthorizationOptions(),
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "served "+req.URL.Path) }),
		Listener: listener,
	}
}

// start runs a server until the test ends and returns its host:port.
func start(t *testing.T, c Config) string {
	t.Helper()
	server, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return server.Addr().String()
}

// caller says how a request is made.
type caller struct {
	cert   *tls.Certificate
	token  string
	header http.Header
	http1  bool
}

// get returns the answer to a request of the caller on a connection of its own.
func (c caller) get(t *testing.T, addr, path string) (status int, body string, response *http.Response) {
	t.Helper()
	status, body, response, err := c.do(t.Context(), http.MethodGet, addr, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return status, body, response
}

func (c caller) do(ctx context.Context, method, addr, path string, content io.Reader) (int, string, *http.Response, error) {
	config := &tls.Config{InsecureSkipVerify: true}
	if c.cert != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: !c.http1}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+addr+path, content)
	if err != nil {
		return 0, "", nil, err
	}
	if c.header != nil {
		req.Header = c.header.Clone()
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), response, err
}

// eventually fails the test if the condition does not come true in good time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestWhoMayDoWhat is the matrix of callers and paths against a server set up as kubeadm does.
func TestWhoMayDoWhat(t *testing.T) {
	k := newKube(t)
	k.tokens["prometheus-token"] = authenticationv1.UserInfo{Username: "prometheus", Groups: []string{"scrapers"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p1"}}}
	k.access = func(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		switch {
		case spec.User == "prometheus" && spec.NonResourceAttributes.Path == "/metrics" && spec.NonResourceAttributes.Verb == "get":
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		case spec.User == "mallory":
			return authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "not her"}
		}
		return authorizationv1.SubjectAccessReviewStatus{}
	}
	users, proxies, strangers := newAuthority(t, "users"), newAuthority(t, "proxies"), newAuthority(t, "strangers")
	c := testConfig(t)
	c.Authentication.Kubeconfig, c.Authorization.Kubeconfig = k.kubeconfig, k.kubeconfig
	c.Authentication.ClientCAFile = writeFile(t, t.TempDir(), "ca.crt", users.pem)
	c.Authentication.RequestHeader.ClientCAFile = writeFile(t, t.TempDir(), "proxy-ca.crt", proxies.pem)
	c.Authentication.RequestHeader.AllowedNames = []string{"front-proxy-client"}
	addr := start(t, c)

	named := func(user, group string) http.Header {
		return http.Header{"X-Remote-User": {user}, "X-Remote-Group": {group}}
	}
	forbidden := func(user, path, reason string) string {
		message := `forbidden: User \"` + user + `\" cannot get path \"` + path + `\"` + reason
		return `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"` + message + `","reason":"Forbidden","details":{},"code":403}` + "\n"
	}
	const unauthorized = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}` + "\n"

	for _, tc := range []struct {
		name   string
		caller caller
		path   string
		status int
		body   string
	}{
		{"nobody may probe", caller{}, "/healthz", 200, "served /healthz"},
		{"nobody may probe over HTTP/1.1", caller{http1: true}, "/livez", 200, "served /livez"},
		{"nobody may not see a single check", caller{}, "/healthz/ping", 403, forbidden("system:anonymous", "/healthz/ping", "")},
		{"nobody may not scrape", caller{}, "/metrics", 403, forbidden("system:anonymous", "/metrics", "")},
		{"a token with the right may scrape", caller{token: "prometheus-token"}, "/metrics", 200, "served /metrics"},
		{"a token without the right may not", caller{token: "prometheus-token"}, "/configz", 403, forbidden("prometheus", "/configz", "")},
		{"an unknown token is refused", caller{token: "guess"}, "/metrics", 401, unauthorized},
		{"an unknown token is refused on open paths too", caller{token: "guess"}, "/healthz", 401, unauthorized},
		{"an administrator may do all", caller{cert: users.client("root", "system:masters")}, "/debug/pprof/", 200, "served /debug/pprof/"},
		{"a user without rights may not", caller{cert: users.client("jane", "devs")}, "/metrics", 403, forbidden("jane", "/metrics", "")},
		{"a reason is passed on", caller{cert: users.client("mallory")}, "/metrics", 403, forbidden("mallory", "/metrics", ": not her")},
		{"a certificate of strangers is refused", caller{cert: strangers.client("root", "system:masters")}, "/metrics", 401, unauthorized},
		{"a token helps where the certificate does not", caller{cert: strangers.client("x"), token: "prometheus-token"}, "/metrics", 200, "served /metrics"},
		{"a proxy may name a user", caller{cert: proxies.client("front-proxy-client"), header: named("prometheus", "")}, "/metrics", 200, "served /metrics"},
		{"a proxy may name an administrator", caller{cert: proxies.client("front-proxy-client"), header: named("root", "system:masters")}, "/x", 200, "served /x"},
		{"another proxy may not", caller{cert: proxies.client("other"), header: named("root", "system:masters")}, "/x", 401, unauthorized},
		{"headers alone name nobody", caller{header: named("root", "system:masters")}, "/x", 403, forbidden("system:anonymous", "/x", "")},
		{"a user cannot name another", caller{cert: users.client("jane"), header: named("root", "system:masters")}, "/x", 403, forbidden("jane", "/x", "")},
		{"markup does not come back", caller{}, "/%3Cb%3E", 403, forbidden("system:anonymous", `/\u0026lt;b\u0026gt;`, "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, body, response := tc.caller.get(t, addr, tc.path)
			if status != tc.status || body != tc.body {
				t.Errorf("got %d %q\nwant %d %q", status, body, tc.status, tc.body)
			}
			if want := map[bool]int{true: 1, false: 2}[tc.caller.http1]; response.ProtoMajor != want {
				t.Errorf("HTTP/%d, want HTTP/%d", response.ProtoMajor, want)
			}
			if got := response.Header.Get("Cache-Control"); got != "no-cache, private" {
				t.Errorf("Cache-Control = %q", got)
			}
		})
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	for _, spec := range k.reviewed {
		if spec.User == "root" || spec.NonResourceAttributes.Path == "/healthz" {
			t.Errorf("needless review %+v", spec)
		}
		wantGroup := "system:authenticated"
		if spec.User == "system:anonymous" {
			wantGroup = "system:unauthenticated"
		}
		if !strings.Contains(strings.Join(spec.Groups, " "), wantGroup) {
			t.Errorf("groups of %s are %v, want %s among them", spec.User, spec.Groups, wantGroup)
		}
		if byToken := slices.Contains(spec.Groups, "scrapers"); byToken && !slices.Equal(spec.Extra["pod"], []string{"p1"}) {
			t.Errorf("extra attributes lost: %+v", spec)
		}
	}
}

func TestReviewsAreCached(t *testing.T) {
	k := newKube(t)
	k.tokens["t"] = authenticationv1.UserInfo{Username: "u"}
	c := testConfig(t)
	c.Authentication.Kubeconfig, c.Authorization.Kubeconfig = k.kubeconfig, k.kubeconfig
	c.Authentication.SkipLookup = true
	addr := start(t, c)
	for range 5 {
		if status, _, _ := (caller{token: "t"}).get(t, addr, "/metrics"); status != http.StatusForbidden {
			t.Fatalf("status %d", status)
		}
	}
	if n := k.count("tokenreviews"); n != 1 {
		t.Errorf("%d token reviews, want 1", n)
	}
	if n := k.count("subjectaccessreviews"); n != 1 {
		t.Errorf("%d subject access reviews, want 1", n)
	}
}

func TestAPIServerTrouble(t *testing.T) {
	k := newKube(t)
	users := newAuthority(t, "users")
	c := testConfig(t)
	c.Authentication.Kubeconfig, c.Authorization.Kubeconfig = k.kubeconfig, k.kubeconfig
	c.Authentication.SkipLookup = true
	c.Authentication.ClientCAFile = writeFile(t, t.TempDir(), "ca.crt", users.pem)
	addr := start(t, c)
	k.with(func() { k.failWith = http.StatusConflict }) // not worth another try

	if status, body, _ := (caller{}).get(t, addr, "/metrics"); status != http.StatusInternalServerError || !strings.Contains(body, `Internal Server Error: "/metrics": review access:`) {
		t.Errorf("access not reviewable: %d %q", status, body)
	}
	if status, _, _ := (caller{token: "t"}).get(t, addr, "/metrics"); status != http.StatusUnauthorized {
		t.Errorf("token not reviewable: %d", status)
	}
	for _, tc := range []struct {
		caller caller
		path   string
	}{{caller{}, "/healthz"}, {caller{cert: users.client("root", "system:masters")}, "/metrics"}} {
		if status, _, _ := tc.caller.get(t, addr, tc.path); status != http.StatusOK {
			t.Errorf("%s needs the API server: %d", tc.path, status)
		}
	}
	// An error must not be remembered.
	k.with(func() {
		k.failWith = 0
		k.access = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		}
	})
	if status, _, _ := (caller{}).get(t, addr, "/metrics"); status != http.StatusOK {
		t.Errorf("still failing after the API server is back: %d", status)
	}
}

func TestWithoutKubeconfigOnlyOpenPathsAreServed(t *testing.T) {
	addr := start(t, testConfig(t))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/livez": 200, "/metrics": 403} {
		if status, _, _ := (caller{}).get(t, addr, path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

func TestPanicIsAnswered(t *testing.T) {
	c := testConfig(t)
	c.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.RawQuery == "late" {
			io.WriteString(w, "half")
		}
		panic("in the handler")
	})
	addr := start(t, c)
	for range 2 { // the second shows that the server has survived the first
		if status, body, _ := (caller{}).get(t, addr, "/healthz"); status != http.StatusInternalServerError || !strings.Contains(body, "panic") {
			t.Errorf("got %d %q", status, body)
		}
	}
	if status, body, _ := (caller{}).get(t, addr, "/healthz?late"); status != http.StatusOK || body != "half" {
		t.Errorf("after the answer had begun: %d %q", status, body)
	}
}

func TestRunWaitsForRequestsAndCutsThemOff(t *testing.T) {
	for _, tc := range []struct {
		name    string
		timeout time.Duration
		served  bool
	}{{"long enough", 10 * time.Second, true}, {"too short", 50 * time.Millisecond, false}} {
		t.Run(tc.name, func(t *testing.T) {
			c := testConfig(t)
			c.ShutdownTimeout = tc.timeout
			entered, release := make(chan struct{}), make(chan struct{})
			c.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				close(entered)
				<-release
			})
			server, err := New(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended, answered := make(chan error, 1), make(chan error, 1)
			go func() { ended <- server.Run(ctx) }()
			go func() {
				_, _, _, err := (caller{http1: true}).do(t.Context(), http.MethodGet, server.Addr().String(), "/healthz", nil)
				answered <- err
			}()
			<-entered
			cancel()
			if tc.served {
				select {
				case err := <-ended:
					t.Fatalf("Run returned before the request had ended: %v", err)
				case <-time.After(100 * time.Millisecond):
				}
				close(release)
			}
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
			if err := <-answered; (err == nil) != tc.served {
				t.Errorf("request: %v, want served %t", err, tc.served)
			}
			if !tc.served {
				close(release)
			}
			if _, err := net.Dial("tcp", server.Addr().String()); err == nil {
				t.Error("the port is still open")
			}
		})
	}
}

func TestRunReportsABrokenListener(t *testing.T) {
	c := testConfig(t)
	server, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Listener.Close()
	if err := server.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run: %v", err)
	}
}

// trusts reports whether the server's certificate is one the authority vouches for.
func trusts(a *authority, addr, serverName string) error {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: serverName})
	if err != nil {
		return err
	}
	return conn.Close()
}
