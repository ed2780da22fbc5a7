package garbagecollector

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/pflag"

	"orrery/kit"
)

func TestFlags(t *testing.T) {
	o := &options{enabled: true, workers: 20}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.addFlags(fs)
	for name, want := range map[string]string{"enable-garbage-collector": "true", "concurrent-gc-syncs": "20"} {
		if f := fs.Lookup(name); f == nil || f.DefValue != want {
			t.Errorf("flag %s: %+v, want the default %s", name, f, want)
		}
	}
	if errs := o.validate(); len(errs) != 0 {
		t.Errorf("defaults: %v", errs)
	}
	if err := fs.Parse([]string{"--concurrent-gc-syncs=0"}); err != nil {
		t.Fatal(err)
	}
	if errs := o.validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "--concurrent-gc-syncs: 0: must be at least 1") {
		t.Errorf("no workers: %v", errs)
	}
}

func TestItDoesNotRunWhereItIsSwitchedOff(t *testing.T) {
	o := &options{workers: 20}
	if started, err := o.init(kit.ControllerContext{}); started || err != nil {
		t.Errorf("started %t, %v", started, err)
	}
}

func TestTheGraphIsAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		get := func(target string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			l.o.serveGraph(w, httptest.NewRequest("GET", target, nil))
			return w
		}
		if w := get("/graph"); w.Code != 404 {
			t.Errorf("before the start: %d %s", w.Code, w.Body)
		}
		a, b := configMap("a"), configMap("b")
		l.add(a, b)
		p, q := pod("p", by(a)), pod("q", by(b))
		l.add(p, q)
		l.start()
		w := get("/graph")
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/vnd.graphviz" {
			t.Errorf("%d, %v", w.Code, w.Header())
		}
		edges := []string{`"` + string(p.UID) + `" -> "` + string(a.UID), `"` + string(q.UID) + `" -> "` + string(b.UID)}
		for i, want := range []string{"all", "one"} {
			body := get([]string{"/graph", "/graph?uid=" + string(a.UID)}[i]).Body.String()
			if !strings.Contains(body, edges[0]) || strings.Contains(body, edges[1]) != (want == "all") {
				t.Errorf("%s: got\n%s", want, body)
			}
		}
	})
}
