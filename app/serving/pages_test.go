package serving

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"orrery/kit/health"
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

func allPages() *Mux {
	mux := NewMux()
	Endpoints{
		Component: "kube-controller-manager",
		Health:    health.New(),
		Configz: func() map[string]any {
			return map[string]any{"kubecontrollermanager.config.k8s.io": map[string]string{"kind": "KubeControllerManagerConfiguration"}}
		},
		Flags:     func() map[string]string { return map[string]string{"v": "2", "cluster-name": "a=b"} },
		Status:    &Status{BinaryVersion: "1.37.2", EmulationVersion: "1.37"},
		Profiling: true,
		Controllers: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			answerJSON(w, req, "application/json", req.URL.Path, "")
		}),
	}.Install(mux)
	return mux
}

const flagzText = `
kube-controller-manager flagz
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.
cluster-name=a=b
v=2
`

const flagzJSON = `{"kind":"Flagz","apiVersion":"config.k8s.io/%s","metadata":{"name":"kube-controller-manager"},"flags":{"cluster-name":"a=b","v":"2"}}`

func TestPages(t *testing.T) {
	mux := allPages()
	for _, tc := range []struct {
		name, target, accept string
		status               int
		contentType, body    string // a body in slashes is a regular expression
	}{
		{"configz", "/configz", "", 200, "application/json", `{"kubecontrollermanager.config.k8s.io":{"kind":"KubeControllerManagerConfiguration"}}`},
		{"metrics", "/metrics", "", 200, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", `/(?m)^go_goroutines \d+$/`},
		{"health metrics", "/metrics/slis", "", 200, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", `/(?m)^kubernetes_healthcheck\{name="ping",type="livez"\} 1$/`},

		{"flagz", "/flagz", "", 200, "text/plain; charset=utf-8", flagzText},
		{"flagz for a browser", "/flagz", "text/html, application/xhtml+xml, */*;q=0.8", 200, "text/plain; charset=utf-8", flagzText},
		{"flagz as JSON", "/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Flagz", fmt.Sprintf(flagzJSON, "v1beta1")},
		{"flagz as old JSON", "/flagz", "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", 200, "application/json;g=config.k8s.io;v=v1alpha1;as=Flagz", fmt.Sprintf(flagzJSON, "v1alpha1")},
		{"flagz as YAML", "/flagz", "application/yaml;as=Flagz;v=v1beta1;g=config.k8s.io", 200, "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz",
			"apiVersion: config.k8s.io/v1beta1\nflags:\n  cluster-name: a=b\n  v: \"2\"\nkind: Flagz\nmetadata:\n  name: kube-controller-manager\n"},
		{"flagz as JSON of no kind", "/flagz", "application/json", 406, "application/json", `/"reason":"NotAcceptable","code":406/`},
		{"flagz as another kind", "/flagz", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io", 406, "application/json", `/application/json, application/yaml, text/plain/`},
		{"flagz in another version", "/flagz", "application/json;as=Flagz;v=v1;g=config.k8s.io", 406, "application/json", `/only the following media types/`},

		{"statusz", "/statusz", "text/plain", 200, "text/plain; charset=utf-8",
			`/\A\nkube-controller-manager statusz\nWarning: .*\n\nStarted: \w+ \w+ +\d+ .*\nUp: 0 hr 0\d min \d\d sec\nGo version: go1\.\d+.*\nBinary version: 1\.37\.2\nEmulation version: 1\.37\nPaths: /configz /flagz /healthz /livez /metrics /readyz\n\z/`},
		{"statusz as JSON", "/statusz", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Statusz",
			`/\A\{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":\{"name":"kube-controller-manager"\},"startTime":"[^"]+Z","uptimeSeconds":\d+,"goVersion":"go[^"]+","binaryVersion":"1.37.2","emulationVersion":"1.37","paths":\["/configz","/flagz","/healthz","/livez","/metrics","/readyz"\]\}\z/`},

		{"controllers", "/debug/controllers", "", 200, "application/json", `"/debug/controllers"`},
		{"one controller", "/debug/controllers/job-controller/orphan-pods", "", 200, "application/json", `"/debug/controllers/job-controller/orphan-pods"`},

		{"profiles", "/debug/pprof/", "", 200, "text/html; charset=utf-8", `/goroutine/`},
		{"a profile", "/debug/pprof/goroutine?debug=1", "", 200, "text/plain; charset=utf-8", `/goroutine profile: total/`},
		{"flags that can be changed", "/debug/flags", "", 200, "text/plain; charset=utf-8", `/v  log verbosity/`},
		{"verbosity cannot be read", "/debug/flags/v", "", 406, "text/plain; charset=utf-8", "unsupported http method\n"},
		{"nothing at the root", "/", "", 404, "text/plain; charset=utf-8", "404 page not found\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.target == "/metrics/slis" {
				ask(mux, http.MethodGet, "/livez", nil)
			}
			header := http.Header{}
			if tc.accept != "" {
				header.Set("Accept", tc.accept)
			}
			status, body, response := ask(mux, http.MethodGet, tc.target, header)
			if got := response.Header.Get("Content-Type"); status != tc.status || got != tc.contentType {
				t.Errorf("%d %s, want %d %s: %.300s", status, got, tc.status, tc.contentType, body)
			}
			pattern, isPattern := strings.CutPrefix(tc.body, "/")
			pattern, isPattern2 := strings.CutSuffix(pattern, "/")
			switch {
			case isPattern && isPattern2:
				if !regexp.MustCompile(pattern).MatchString(body) {
					t.Errorf("body %.600q\ndoes not match %s", body, pattern)
				}
			case body != tc.body:
				t.Errorf("body %q\nwant %q", body, tc.body)
			}
		})
	}
}

func TestOldVersionsWarn(t *testing.T) {
	for version, want := range map[string]string{
		"v1beta1":  "",
		"v1alpha1": `299 - "This version of the statusz endpoint is deprecated. Please use a newer version."`,
	} {
		_, _, response := ask(allPages(), http.MethodGet, "/statusz", http.Header{"Accept": {"application/json;as=Statusz;g=config.k8s.io;v=" + version}})
		if got := response.Header.Get("Warning"); got != want {
			t.Errorf("%s: Warning = %q", version, got)
		}
	}
}

func TestPeopleGetIndentedJSON(t *testing.T) {
	for _, tc := range []struct {
		query, agent string
		indented     bool
	}{{"", "curl/8", true}, {"", "Go-http-client/2.0", false}, {"?pretty=true", "", true}, {"?pretty=0", "curl/8", false}} {
		header := http.Header{"Accept": {"application/json;as=Flagz;g=config.k8s.io;v=v1beta1"}, "User-Agent": {tc.agent}}
		if _, body, _ := ask(allPages(), http.MethodGet, "/flagz"+tc.query, header); strings.Contains(body, "\n  ") != tc.indented {
			t.Errorf("%+v: %q", tc, body)
		}
	}
}

func TestVerbosityCanBeChanged(t *testing.T) {
	before := "0"
	for level := klog.Level(10); level > 0; level-- {
		if klog.V(level).Enabled() {
			before = level.String()
			break
		}
	}
	t.Cleanup(func() {
		if _, err := logs.GlogSetter(before); err != nil {
			t.Error(err)
		}
	})
	put := func(body string) (int, string) {
		recorder := httptest.NewRecorder()
		allPages().ServeHTTP(recorder, httptest.NewRequest(http.MethodPut, "/debug/flags/v", strings.NewReader(body)))
		return recorder.Code, recorder.Body.String()
	}
	if status, body := put("7"); status != http.StatusOK || body != "successfully set klog.logging.verbosity to 7\n" || !klog.V(7).Enabled() {
		t.Errorf("%d %q, V(7) enabled %t", status, body, klog.V(7).Enabled())
	}
	for _, bad := range []string{"much", "-1", strings.Repeat("1", 2000)} {
		if status, _ := put(bad); status != http.StatusBadRequest {
			t.Errorf("%.10s: %d", bad, status)
		}
	}
}

func TestPagesCanBeLeftOut(t *testing.T) {
	mux := NewMux()
	Endpoints{Component: "x"}.Install(mux)
	for _, path := range []string{"/healthz", "/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/flags/v", "/debug/controllers"} {
		if status, _, _ := ask(mux, http.MethodGet, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if want := []string{"/metrics", "/metrics/slis"}; !reflect.DeepEqual(mux.Paths(), want) {
		t.Errorf("Paths() = %q, want %q", mux.Paths(), want)
	}
}

func TestFlagValuesHideWhatIsClassified(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.String("password", "secret", "")
	fs.Int("port", 1, "")
	if err := fs.SetAnnotation("password", "classified", []string{"true"}); err != nil {
		t.Fatal(err)
	}
	if err := fs.Parse([]string{"--port=2"}); err != nil {
		t.Fatal(err)
	}
	if got, want := FlagValues(fs), (map[string]string{"password": "CLASSIFIED", "port": "2"}); !reflect.DeepEqual(got, want) {
		t.Errorf("FlagValues = %v, want %v", got, want)
	}
}

func TestStatusObjectIsWhatClientsExpect(t *testing.T) {
	recorder := httptest.NewRecorder()
	answerUnauthorized(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	var status struct{ Kind, APIVersion, Reason string }
	if err := json.Unmarshal(recorder.Body.Bytes(), &status); err != nil || status.Kind != "Status" || status.APIVersion != "v1" || status.Reason != "Unauthorized" {
		t.Errorf("%+v, %v", status, err)
	}
}
