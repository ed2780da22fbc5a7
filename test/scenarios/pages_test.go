package scenarios

import (
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"orrery/hack/localcluster/cluster"
	"orrery/test/monitoring"
)

// metricNames are those of kube-controller-manager that belong to the controllers built here.
//
//go:embed testdata/metrics.txt
var metricNames string

// queueNames are the work queues of the same controllers.
//
//go:embed testdata/queues.txt
var queueNames string

// visitor reads the pages of a controller manager under one identity.
type visitor struct {
	client *http.Client
	url    string
	header http.Header
}

// visit returns a visitor of p with a client certificate, or without any credentials.
func visit(p *cluster.Process, certificates ...tls.Certificate) visitor {
	// The daemon's certificate is its own.
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: certificates, InsecureSkipVerify: true}, DisableKeepAlives: true}
	return visitor{client: &http.Client{Transport: transport}, url: p.URL(), header: http.Header{}}
}

// admin returns the certificate of the administrator.
func (e *env) admin(t *testing.T) tls.Certificate {
	t.Helper()
	config := must(rest.TLSConfigFor(e.RESTConfig()))(t)
	if len(config.Certificates) > 0 {
		return config.Certificates[0]
	}
	return *must(config.GetClientCertificate(nil))(t)
}

func (v visitor) try(t *testing.T, path string) (int, string, error) {
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+path, nil))(t)
	request.Header = v.header
	response, err := v.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// get returns a page and checks its status.
func (v visitor) get(t *testing.T, path string, want int) string {
	t.Helper()
	code, body, err := v.try(t, path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if code != want {
		t.Errorf("%s: status %d, want %d: %.300s", path, code, want, body)
	}
	return body
}

// loops returns the loops that a daemon runs.
func (v visitor) loops(t *testing.T) ([]string, error) {
	code, body, err := v.try(t, "/debug/controllers?format=json")
	if err != nil {
		return nil, err
	}
	var page struct{ Controllers []string }
	if err := json.Unmarshal([]byte(body), &page); err != nil || code != http.StatusOK {
		return nil, fmt.Errorf("status %d, %w: %.300s", code, err, body)
	}
	return page.Controllers, nil
}

func TestPages(t *testing.T) {
	e := withOrrery(t, 1)
	ns := e.namespace(t, "pages")
	e.rollOut(t, ns, "web", 2)
	must(e.Client().CoreV1().Services(ns).Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
	eventually(t, "endpoints", func() error { return e.exposed(t, ns, "web", 2) })
	e.finishedJob(t, ns, "done", 0)
	e.gone(t, "jobs", ns, "done")
	p := e.orrery()
	admin, stranger, anyone := visit(p, e.admin(t)), visit(p, e.issue(t, "stranger").tls(t)), visit(p)

	t.Run("health", func(t *testing.T) { healthPages(t, admin, anyone) })
	t.Run("who may read", func(t *testing.T) { readers(t, admin, stranger, anyone) })
	t.Run("metrics", func(t *testing.T) { metricsPage(t, admin.get(t, "/metrics", 200)) })
	t.Run("documented metrics", func(t *testing.T) { documented(t, admin) })
	t.Run("configz", func(t *testing.T) {
		var page map[string]struct {
			Kind, APIVersion     string
			DeploymentController struct{ ConcurrentDeploymentSyncs int }
		}
		if err := json.Unmarshal([]byte(admin.get(t, "/configz", 200)), &page); err != nil {
			t.Fatal(err)
		}
		c := page["kubecontrollermanager.config.k8s.io"]
		if c.Kind != "KubeControllerManagerConfiguration" || c.DeploymentController.ConcurrentDeploymentSyncs != 5 {
			t.Errorf("configuration is %+v", c)
		}
	})
	t.Run("flagz and statusz", func(t *testing.T) {
		if page := admin.get(t, "/flagz", 200); !strings.Contains(page, "use-service-account-credentials=true") {
			t.Errorf("flagz:\n%s", page)
		}
		page := admin.get(t, "/statusz", 200)
		for _, line := range []string{"Go version: go1.", "Binary version: 1.37.", "Emulation version: 1.37\n", "/metrics"} {
			if !strings.Contains(page, line) {
				t.Errorf("statusz lacks %q:\n%s", line, page)
			}
		}
	})
	t.Run("every loop has a page", func(t *testing.T) { loopPages(t, admin) })
}

func healthPages(t *testing.T, admin, anyone visitor) {
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		eventually(t, path, func() error {
			code, body, err := anyone.try(t, path)
			return errors.Join(err, differ("status", code, 200), differ("body", body, "ok"))
		})
		verbose := admin.get(t, path+"?verbose", 200)
		if !strings.Contains(verbose, "check passed") {
			t.Errorf("%s?verbose: %s", path, verbose)
		}
	}
	if verbose := admin.get(t, "/readyz?verbose", 200); !strings.Contains(verbose, "[+]replicaset-controller ok") {
		t.Errorf("no check per controller:\n%s", verbose)
	}
	admin.get(t, "/livez/no-such-check", 404)
}

func readers(t *testing.T, admin, stranger, anyone visitor) {
	forged := anyone
	forged.header = http.Header{"Authorization": {"Bearer not-a-token"}}
	for _, path := range []string{"/metrics", "/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/controllers"} {
		admin.get(t, path, 200)
		stranger.get(t, path, 403)
		anyone.get(t, path, 403)
		forged.get(t, path, 401)
	}
	anyone.get(t, "/no-such-page", 403)
	admin.get(t, "/no-such-page", 404)
}

func loopPages(t *testing.T, admin visitor) {
	for _, name := range must(admin.loops(t))(t) {
		var state struct {
			Name, Phase string
			Sources     []struct {
				Name   string
				Synced bool
			}
		}
		if err := json.Unmarshal([]byte(admin.get(t, "/debug/controllers/"+name+"?format=json", 200)), &state); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if state.Name != name || state.Phase != "running" {
			t.Errorf("%s: %+v, want it running", name, state)
		}
		for _, s := range state.Sources {
			if !s.Synced {
				t.Errorf("%s: source %s has not synced", name, s.Name)
			}
		}
		if text := admin.get(t, "/debug/controllers/"+name, 200); !strings.Contains(text, "running") {
			t.Errorf("%s as text:\n%s", name, text)
		}
	}
	if text := admin.get(t, "/debug/controllers/replicaset-controller", 200); !strings.Contains(text, "pages/web-") {
		t.Errorf("the last outcomes do not name the ReplicaSet:\n%s", text)
	}
	admin.get(t, "/debug/controllers/nope", 404)
}

// metricsPage checks the names on /metrics and that they count.
func metricsPage(t *testing.T, page string) {
	exposed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(page, -1) {
		exposed[m[1]] = true
	}
	for _, name := range strings.Fields(metricNames) {
		if !exposed[name] {
			t.Errorf("no metric %s", name)
		}
	}
	queues := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^workqueue_depth\{name="([^"]+)"\}`).FindAllStringSubmatch(page, -1) {
		queues[m[1]] = true
	}
	for _, name := range strings.Fields(queueNames) {
		if !queues[name] {
			t.Errorf("no queue %s", name)
		}
	}
	for _, counted := range []string{
		`workqueue_adds_total\{name="replicaset"\} [1-9]`,
		`rest_client_requests_total\{code="201",host="[^"]+",method="POST"\} [1-9]`,
		`leader_election_master_status\{name="kube-controller-manager"\} 1`,
		`orrery_reconcile_total\{[^}]*controller="deployment-controller"[^}]*\} [1-9]`,
	} {
		if !regexp.MustCompile(`(?m)^` + counted).MatchString(page) {
			t.Errorf("nothing matches %s", counted)
		}
	}
}

// documented holds docs/metrics.md against what the daemon exposes: no metric and no check without a line, and no line
// without its metric or check.
func documented(t *testing.T, admin visitor) {
	const root = "../.."
	lines := must(monitoring.Documented(root))(t)
	exposed := monitoring.Exposed(admin.get(t, "/metrics", 200))
	maps.Copy(exposed, monitoring.Exposed(admin.get(t, "/metrics/slis", 200)))
	for name, m := range exposed {
		switch line, ok := lines[name]; {
		case !ok:
			t.Errorf("docs/metrics.md lacks the %s %s with labels %q", m.Type, name, m.Labels)
		case m.Type != line.Type || m.Labels != line.Labels && m.Labels != "":
			t.Errorf("docs/metrics.md says that %s is a %s with labels %q; it is a %s with %q", name, line.Type, line.Labels, m.Type, m.Labels)
		}
	}
	for name, line := range lines {
		if _, ok := exposed[name]; !ok && !line.Quiet {
			t.Errorf("docs/metrics.md lists %s, which the daemon does not expose", name)
		}
	}
	text := string(must(os.ReadFile(root + "/docs/metrics.md"))(t))
	const heading = "There is one such check for each running loop:"
	_, checks, found := strings.Cut(text, heading)
	if !found {
		t.Fatalf("docs/metrics.md has no line %q", heading)
	}
	checks, _, _ = strings.Cut(checks, "\n## ")
	var want, got []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(checks, -1) {
		if m[1] != "nodepool-controller" {
			want = append(want, m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\[.\](\S+) `).FindAllStringSubmatch(admin.get(t, "/readyz?verbose", 200), -1) {
		if m[1] != "ping" && m[1] != "leaderElection" {
			got = append(got, m[1])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("docs/metrics.md lists the checks\n%v\nthe daemon has\n%v", want, got)
	}
}

// TestStandbyIsHealthy asks a process that waits for the lease.
func TestStandbyIsHealthy(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 0)
	leader := e.holder(t)
	standby := e.manage(t, cluster.Orrery)
	if body := visit(standby).get(t, "/healthz", 200); body != "ok" {
		t.Errorf("/healthz of a standby: %s", body)
	}
	loops := must(visit(standby, e.admin(t)).loops(t))(t)
	if len(loops) > 0 && slices.Contains(loops, "deployment-controller") && e.holder(t) == leader {
		page := visit(standby, e.admin(t)).get(t, "/debug/controllers/deployment-controller?format=json", 200)
		if strings.Contains(page, `"phase": "running"`) {
			t.Errorf("a standby runs its loops:\n%s", page)
		}
	}
	eventually(t, "the standby says who leads", func() error {
		page := visit(standby, e.admin(t)).get(t, "/debug/controllers?format=json", 200)
		if !strings.Contains(page, fmt.Sprintf("%q: %q", "holder", leader)) || !strings.Contains(page, `"leading": false`) {
			return fmt.Errorf("%.600s", page)
		}
		return nil
	})
	if now := e.holder(t); now != leader {
		t.Errorf("the lease went from %s to %s", leader, now)
	}
}
