package ask

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orrery/kit/manager"
	"orrery/kit/selfsigned"
	"orrery/kit/status"
)

// fake is a daemon that answers as the test wants, and remembers what it was asked.
type fake struct {
	*httptest.Server
	code       int
	kind, body string
	asked      *http.Request
}

func newFake(t *testing.T) *fake {
	f := &fake{code: 200, kind: "application/json"}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f.asked = req
		w.Header().Set("Content-Type", f.kind)
		w.WriteHeader(f.code)
		_, _ = io.WriteString(w, f.body)
	}))
	f.Server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	f.Config.ErrorLog = nil
	f.StartTLS()
	t.Cleanup(f.Close)
	f.body = must(t, json.Marshal, any(status.Overview{
		Component: "kube-controller-manager", Version: "v1", Now: time.Unix(1000, 0), Started: time.Unix(0, 0),
		Leadership: manager.Leadership{Election: true, Holder: "other_1", Lease: "kube-system/x"},
		NotRunning: []status.NotRunning{{Name: "job-controller", Why: "disabled"}},
	}))
	return f
}

func must(t *testing.T, f func(any) ([]byte, error), v any) string {
	t.Helper()
	b, err := f(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// kubeconfig writes one with a client certificate, or with a token.
func kubeconfig(t *testing.T, token string) string {
	t.Helper()
	dir := t.TempDir()
	user := fmt.Sprintf(`"token":%q`, token)
	if token == "" {
		b, err := selfsigned.New([]string{"me"}, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Write(dir); err != nil {
			t.Fatal(err)
		}
		user = fmt.Sprintf(`"client-certificate":%q,"client-key":%q`, filepath.Join(dir, selfsigned.CertFile), filepath.Join(dir, selfsigned.KeyFile))
	}
	path := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://api:6443"}}],
		"users":[{"name":"u","user":{%s}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, user)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a command and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := NewStatusCommand()
	if args[0] == "explain" {
		cmd = NewExplainCommand()
	}
	var out bytes.Buffer
	cmd.SetArgs(args[1:])
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage = true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestStatusIsAskedForWithTheCredentialsOfTheKubeconfig(t *testing.T) {
	f := newFake(t)
	out, err := run(t, "status", "--server", f.URL, "--kubeconfig", kubeconfig(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.asked.TLS.PeerCertificates) != 1 || f.asked.URL.Path != "/debug/controllers" || f.asked.Header.Get("Accept") != "application/json" {
		t.Errorf("asked for %s with %d certificates", f.asked.URL, len(f.asked.TLS.PeerCertificates))
	}
	for _, want := range []string{"kube-controller-manager  v1", "standby: other_1 leads", "up                       16 min", "job-controller  disabled"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, err = run(t, "status", "--server", f.URL, "--kubeconfig", kubeconfig(t, ""), "-o", "json"); err != nil || out != f.body+"\n" {
		t.Errorf("as JSON: %v\n%s", err, out)
	}
}

func TestATokenIsNotSentToWhoeverAnswers(t *testing.T) {
	f := newFake(t)
	for _, args := range [][]string{{"--kubeconfig", kubeconfig(t, "secret")}, {"--token", "secret"}} {
		f.asked = nil
		_, err := run(t, append([]string{"status", "--server", f.URL}, args...)...)
		if err == nil || !strings.Contains(err.Error(), "--certificate-authority") || f.asked != nil {
			t.Errorf("%s: %v, and the daemon was asked: %t", args[0], err, f.asked != nil)
		}
		if _, err = run(t, append([]string{"status", "--server", f.URL, "--insecure-skip-tls-verify"}, args...)...); err != nil {
			t.Error(err)
		} else if got := f.asked.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("sent %q", got)
		}
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "status", "--server", f.URL, "--token", "secret", "--certificate-authority", ca); err != nil {
		t.Errorf("with the authority: %v", err)
	}
}

func TestExplainAsksForTheObject(t *testing.T) {
	f := newFake(t)
	f.body = must(t, json.Marshal, any(status.Explanation{Kind: "Deployment", Object: "default/web", Loops: []status.LoopHistory{{Loop: "deployment-controller", Of: "Deployment default/web"}}}))
	out, err := run(t, "explain", "deploy", "default/web", "--server", f.URL, "--kubeconfig", kubeconfig(t, ""))
	if err != nil || f.asked.URL.RawQuery != "kind=deploy&object=default%2Fweb" || !strings.Contains(out, "deployment-controller reconciled Deployment default/web") {
		t.Errorf("%v, asked %s, printed\n%s", err, f.asked.URL, out)
	}
}

func TestErrorsSayWhatIsMissing(t *testing.T) {
	f := newFake(t)
	config := kubeconfig(t, "")
	for _, tc := range []struct {
		name       string
		code       int
		kind, body string
		args       []string
		want       string
	}{
		{"not known", 401, "application/json", `{"kind":"Status","message":"Unauthorized"}`, nil, "does not accept these credentials (401)"},
		{"not allowed", 403, "application/json", `{"kind":"Status","message":"User \"me\" cannot get"}`, nil, `nonResourceURLs ["/debug/controllers", "/debug/controllers/*"] and verb get: User "me" cannot get`},
		{"upstream", 404, "text/plain", "404 page not found\n", nil, "has no /debug/controllers"},
		{"no such kind", 404, "text/plain", "no controller here watches the kind \"foo\"\n", nil, "no controller here watches"},
		{"not the daemon", 200, "text/html", "<html>", nil, "does not respond as Orrery does"},
		{"nonsense", 200, "application/json", "{", nil, "read the response"},
		{"nobody", 200, "", "", []string{"--server", "https://127.0.0.1:1"}, "nothing listens at https://127.0.0.1:1"},
		{"plain HTTP", 200, "", "", []string{"--server", "http://127.0.0.1:1"}, "is not an address of the form https://"},
		{"no file", 200, "", "", []string{"--kubeconfig", "/nonexistent/config"}, "/nonexistent/config"},
		{"no authority", 200, "", "", []string{"--certificate-authority", "/nonexistent/ca"}, "--certificate-authority: open /nonexistent/ca"},
		{"no such format", 200, "", "", []string{"-o", "yaml"}, `--output must be text or json, got "yaml"`},
		{"not of this machine", 200, "", "", []string{"--listen", "0.0.0.0:0"}, "--listen"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.code, f.kind, f.body = tc.code, tc.kind, tc.body
			_, err := run(t, append([]string{"status", "--server", f.URL, "--kubeconfig", config}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, tc.want)
			}
		})
	}
}

func TestBrowsersGetThePageAndNothingElse(t *testing.T) {
	f := newFake(t)
	f.kind, f.body = "text/html", "<html>"
	d := daemon{Server: f.URL, Kubeconfig: kubeconfig(t, "")}
	h, err := d.forward()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		method, target, host string
		code                 int
	}{
		{"GET", "/debug/controllers?object=a", "127.0.0.1:8010", 200}, {"GET", "/debug/controllers/job-controller", "localhost", 200}, {"GET", "/", "[::1]:8010", 302},
		{"GET", "/metrics", "127.0.0.1:8010", 404}, {"GET", "/debug/controllersx", "127.0.0.1", 404}, {"POST", "/debug/controllers", "127.0.0.1", 405},
		{"GET", "/debug/controllers", "evil.example:8010", 403},
	} {
		f.asked = nil
		req := httptest.NewRequest(tc.method, tc.target, nil)
		req.Host = tc.host
		req.Header.Set("Authorization", "Bearer of-the-browser")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != tc.code || (f.asked != nil) != (tc.code == 200) {
			t.Errorf("%s %s at %s: %d, want %d; asked %t", tc.method, tc.target, tc.host, w.Code, tc.code, f.asked != nil)
		}
		if f.asked != nil && (f.asked.Header.Get("Authorization") != "" || f.asked.URL.RequestURI() != tc.target || len(f.asked.TLS.PeerCertificates) != 1) {
			t.Errorf("passed on as %s with %v", f.asked.URL, f.asked.Header)
		}
	}
}
