package status

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
	"orrery/kit/manager"
)

// hostile is a text that must never come through as markup.
const hostile = `<script>alert("x")</script>`

// shown is a page of a process with two loops: one of Deployments, which fails for some, and one with keys of its own.
type shown struct {
	*Page
	api   *kittest.API
	loops []kit.Controller
}

func show(t *testing.T, objects ...client.Object) *shown {
	s := &shown{api: kittest.New(t, objects...)}
	s.api.AllowPanics()
	var caches []*cache.Informer
	r := s.api.Run(t, func(cc kit.ControllerContext) (bool, error) {
		sets := kit.Store[appsv1.ReplicaSet](cc)
		deployments := kit.Store[appsv1.Deployment](cc)
		caches = append(caches, sets.Informer(), deployments.Informer())
		err := kit.NewController(cc, kit.Objects(deployments, kit.ObjectFunc[*appsv1.Deployment](func(_ context.Context, d *appsv1.Deployment) (kit.Result, error) {
			switch d.Name {
			case "bad":
				return kit.Done, errors.New(hostile)
			case "ugly":
				panic(hostile)
			}
			return kit.After(time.Hour), nil
		}))).Watch(kit.For[appsv1.Deployment]()).Complete()
		if err != nil {
			return false, err
		}
		nothing := kit.Func[string](func(context.Context, string) (kit.Result, error) { return kit.Done, nil })
		return true, kit.NewController(cc, nothing).Loop("extra").Watch(kit.Every(time.Minute, "apps/v1 Deployment default/web")).Complete()
	})
	s.loops = r.Controllers
	s.Page = New(Config{
		Component: "tester", Version: "v1", Controllers: func() []kit.Controller { return s.loops }, Summaries: map[string]string{"test": "Tests things"},
		NotRunning: func() []NotRunning { return []NotRunning{{"idle-controller", "", "disabled: " + hostile}} },
		Leadership: func() manager.Leadership {
			return manager.Leadership{Election: true, Leading: true, Lease: "kube-system/tester", Holder: "host_1"}
		},
		Caches: func() []*cache.Informer { return caches }, Traffic: &client.Traffic{},
	})
	s.api.Settle()
	return s
}

func (s *shown) get(t *testing.T, accept, target string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, target, nil)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w
}

// browser is what browsers send.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-of-web"}}
}

func TestPagesAreWellFormedAndHoldNoForeignMarkup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := show(t, deployment("web"), deployment("bad"), deployment("ugly"))
		go func() { _ = s.Run(t.Context()) }()
		s.api.Pass(time.Minute)
		for target, status := range map[string]int{
			"/debug/controllers": 200, "/debug/controllers/test": 200, "/debug/controllers/test/extra": 200, "/debug/controllers/test?q=" + "%3Cscript%3E": 200,
			"/debug/controllers/nope%3Cscript%3E": 404, "/debug/controllers?object=default/bad": 200, "/debug/controllers?kind=deploy&object=default/bad": 200,
			"/debug/controllers?kind=%3Cscript%3E&object=%22%3E%3Cscript%3E": 404, "/debug/controllers?refresh=0": 200,
		} {
			w := s.get(t, browser, target)
			body := w.Body.String()
			if w.Code != status || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s: %d %s", target, w.Code, w.Header().Get("Content-Type"))
			}
			if strings.Contains(body, "<script") || strings.Contains(body, " style=") || strings.Contains(body, " onload") {
				t.Errorf("%s: what the policy forbids is in it", target)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") {
				t.Errorf("%s: policy %q", target, csp)
			}
			if err := balanced(body); err != nil {
				t.Errorf("%s: %v", target, err)
			}
		}
	})
}

// balanced reports whether every element is closed.
func balanced(page string) error {
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "input", "br"}, xml.HTMLEntity
	open := 0
	for {
		token, err := d.Token()
		switch token.(type) {
		case xml.StartElement:
			open++
		case xml.EndElement:
			open--
		}
		if errors.Is(err, io.EOF) && open == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func TestTheOverviewNamesWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := show(t, deployment("web"), deployment("bad"), deployment("ugly"))
		go func() { _ = s.Run(t.Context()) }()
		s.api.Pass(2 * time.Minute)
		page := s.get(t, browser, "/debug/controllers").Body.String()
		for _, want := range []string{
			"Leading", "kube-system/tester as host_1", "in reconcile of default/ugly: panic: &lt;script&gt;", "idle-controller", "Deployment <span class=\"dim\">apps/v1",
			`href="/debug/controllers/test/extra"`, `http-equiv="refresh" content="10"`, "Tests things",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not have %q", want)
			}
		}
		if strings.Contains(s.get(t, browser, "/debug/controllers?refresh=0").Body.String(), "http-equiv") {
			t.Error("a paused page refreshes itself")
		}
		s.api.Pass(10 * time.Minute)
		if page := s.get(t, browser, "/debug/controllers").Body.String(); strings.Contains(page, "are well") {
			t.Error("all is said to be well")
		}
	})
}

func TestFormsOfTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := show(t, deployment("web"))
		s.api.Pass(time.Second)
		const text, page, object = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"
		for _, tc := range []struct{ accept, target, want string }{
			{"", "/debug/controllers", text}, {"*/*", "/debug/controllers", text}, {browser, "/debug/controllers/", page},
			{"application/json", "/debug/controllers", object}, {"application/json;q=0.5, text/html", "/debug/controllers/test", page},
			{browser, "/debug/controllers/test?format=json", object}, {browser, "/debug/controllers/test?format=text", text},
			{"*/*", "/debug/controllers/test?format=html", page}, {"text/plain", "/debug/controllers?object=default/web", text},
		} {
			if got := s.get(t, tc.accept, tc.target).Header().Get("Content-Type"); got != tc.want {
				t.Errorf("%s for %q: %s, want %s", tc.target, tc.accept, got, tc.want)
			}
		}
		if got := s.get(t, "", "/debug/controllers").Body.String(); got != "test\ntest/extra\n" {
			t.Errorf("as text: %q", got)
		}
		var o Overview
		if err := json.Unmarshal(s.get(t, "application/json", "/debug/controllers").Body.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if len(o.Controllers) != 2 || len(o.Loops) != 2 || o.Loops[0].Kind != "Deployment" || !o.Leadership.Leading || len(o.Caches) != 2 || o.Caches[1].Bytes < 500 {
			t.Errorf("overview %+v", o)
		}
		req := httptest.NewRequest(http.MethodPost, "/debug/controllers", nil)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, req); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("a POST is answered with %d", w.Code)
		}
	})
}

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}
		yes := true
		set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-of-web", Controller: &yes}}
		s := show(t, deployment("web"), deployment("bad"), set)
		s.api.Pass(time.Second)
		now := time.Now()
		explain := func(kind, object string) *Explanation {
			e, err := s.Explain(kind, object, now)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := explain("deploy", "default/web")
		if e.Kind != "Deployment" || e.Cached == nil || e.Cached.UID != "uid-of-web" || len(e.Loops) != 2 {
			t.Fatalf("deploy default/web: %+v", e)
		}
		for _, l := range e.Loops {
			if l.Loop == "test" && (l.Of != "Deployment default/web" || l.Next.Sub(now) < 59*time.Minute) {
				t.Errorf("look %+v", l)
			}
		}
		// A ReplicaSet is looked at through its owner, and its name is no key of a loop of Deployments.
		if e = explain("replicasets.apps", "default/web-1"); len(e.Owners) != 1 || len(e.Loops) != 2 || e.Loops[0].Of != "Deployment default/web" && e.Loops[1].Of != "Deployment default/web" {
			t.Errorf("its ReplicaSet: %+v", e)
		}
		if e = explain("ReplicaSet", "default/bad"); e.Cached != nil || len(e.Loops) != 0 {
			t.Errorf("a ReplicaSet of the name of a Deployment: %+v", e)
		}
		if e = explain("", "default/bad"); len(e.Loops) != 1 || e.Loops[0].Entries[0].Error != hostile {
			t.Errorf("without a kind: %+v", e)
		}
		if _, err := s.Explain("pod", "default/web", now); err == nil || !strings.Contains(err.Error(), "deployments, replicasets") {
			t.Errorf("a kind that nobody watches: %v", err)
		}
		text := s.get(t, "", "/debug/controllers?kind=deployment&object=default/web").Body.String()
		if !strings.Contains(text, "test reconciled Deployment default/web") || !strings.Contains(text, "next reconcile: in 59 min") {
			t.Errorf("as text:\n%s", text)
		}
	})
}

func TestSeriesHoldTheLastQuarterOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := show(t, deployment("web"))
		go func() { _ = s.Run(t.Context()) }()
		s.api.Pass(10 * time.Minute)
		rate := func(p *point) float32 { return p.rate }
		extra := s.seriesOf("test/extra")
		values := extra.values(rate)
		sum := 0.0
		for _, v := range values {
			sum += v * period.Seconds()
		}
		if sum < 8.5 || sum > 10.5 { // one a minute, of which the first may come before the first sample
			t.Errorf("%.1f reconciles in the chart of ten minutes, want about 10", sum)
		}
		s.api.Pass(2 * time.Hour)
		later := s.seriesOf("test/extra")
		if n := len(later.values(rate)); n != slots || later.count < 700 {
			t.Errorf("%d values after %d samples", n, later.count)
		}
		if c := newChart("x", later.values(rate), nil, perSecond); len(c.Line) > 2000 || !strings.HasPrefix(c.Line, "M0 ") {
			t.Errorf("line %s", c.Line)
		}
	})
}

func TestNamesMatchWholeWords(t *testing.T) {
	for _, tc := range []struct {
		key, object string
		plain, want bool
	}{
		{"default/web", "default/web", true, true}, {"default/web", "web", true, false}, {"default/web-1", "default/web", true, false},
		{"{v1 Pod default/web}", "default/web", false, true}, {"{v1 Pod default/web-1}", "default/web", false, false},
		{"my-default/web", "default/web", false, false}, {"node-1", "node", false, false}, {"a default/web-1 default/web", "default/web", false, true},
	} {
		if got := names(tc.key, tc.object, tc.plain); got != tc.want {
			t.Errorf("key %q names %q: %t", tc.key, tc.object, got)
		}
	}
}

func TestFiguresAreShort(t *testing.T) {
	for got, want := range map[string]string{
		figure(0): "0", figure(0.033): "0.03", figure(4.26): "4.3", figure(1234.4): "1\u202f234", size(300): "0.3 KiB", size(5 << 20): "5.0 MiB", size(3000 << 20): "3\u202f000 MiB",
		duration(1500 * time.Microsecond): "1.5 ms", duration(90 * time.Second): "90 s", duration(50 * time.Hour): "2 days", duration(3*time.Hour + 5*time.Minute): "3 h 05 min",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
