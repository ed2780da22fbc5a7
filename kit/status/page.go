package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/manager"
)

// Path is the path under which the page must be served.
const Path = "/debug/controllers"

// Config configures a Page. The functions must be safe for concurrent use; what a nil one would return is not shown.
type Config struct {
	// Component is the name of the process, and Version that of its program.
	Component, Version string
	// Controllers returns the loops. Required.
	Controllers func() []kit.Controller
	// NotRunning returns the controllers that have no loop, sorted by name.
	NotRunning func() []NotRunning
	// Summaries describe the controllers, by the name of the descriptor.
	Summaries map[string]string
	// Leadership returns who holds the lease.
	Leadership func() manager.Leadership
	// Caches returns the informers.
	Caches func() []*cache.Informer
	// Traffic counts the requests to the API server.
	Traffic *client.Traffic
	// DryRun is what would have been written; nil if this is not a dry run.
	DryRun *kit.DryRun
	// Limit is the client-side limit on requests per second; 0 means none.
	Limit float32
}

// Page serves Path. It is safe for concurrent use.
type Page struct {
	c       Config
	started time.Time
	policy  string // the Content-Security-Policy

	mu      sync.Mutex // guards samples
	samples samples

	cachesMu  sync.Mutex // guards the fields below
	cachesAt  time.Time
	cachesNow []Cache
}

// New returns a page. It has no charts before Run has been called.
func New(c Config) *Page {
	return &Page{c: c, started: time.Now(), policy: policy(), samples: samples{loops: map[string]*measured{}}}
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
		return
	}
	now := time.Now()
	name := strings.Trim(strings.TrimPrefix(req.URL.Path, Path), "/")
	query := req.URL.Query()
	switch object := strings.TrimSpace(query.Get("object")); {
	case name == "" && object != "":
		p.serveExplanation(w, req, strings.TrimSpace(query.Get("kind")), object, now)
	case name == "":
		p.serveOverview(w, req, now)
	default:
		p.serveLoop(w, req, name, strings.TrimSpace(query.Get("q")), now)
	}
}

func (p *Page) serveOverview(w http.ResponseWriter, req *http.Request, now time.Time) {
	switch formOf(req) {
	case asJSON:
		answerJSON(w, p.Overview(now))
	case asHTML:
		p.render(w, http.StatusOK, p.overviewView(req, now))
	default:
		var names []string
		for _, c := range p.loops() {
			names = append(names, c.Name())
		}
		answer(w, "text/plain; charset=utf-8", http.StatusOK, []byte(strings.Join(append(names, ""), "\n")))
	}
}

func (p *Page) serveExplanation(w http.ResponseWriter, req *http.Request, kind, object string, now time.Time) {
	e, err := p.Explain(kind, object, now)
	status := http.StatusOK
	if err != nil {
		status = http.StatusNotFound
	}
	switch form := formOf(req); {
	case form == asHTML:
		p.render(w, status, p.explainView(req, e, kind, object, err, now))
	case err != nil:
		http.Error(w, err.Error(), status)
	case form == asJSON:
		answerJSON(w, e)
	default:
		answerText(w, func(b *bytes.Buffer) error { return WriteExplanation(b, e, now) })
	}
}

// loopJSON is the JSON of one loop: its state and the result of a search.
type loopJSON struct {
	Loop
	Search  string      `json:"search,omitempty"`
	Matches []kit.Entry `json:"matches,omitempty"` // newest first
}

func (p *Page) serveLoop(w http.ResponseWriter, req *http.Request, name, search string, now time.Time) {
	all := p.loops()
	i := slices.IndexFunc(all, func(c kit.Controller) bool { return c.Name() == name })
	if i < 0 {
		p.serveUnknown(w, req, name)
		return
	}
	l := loopJSON{Loop: p.loop(all[i], now), Search: search}
	if search != "" {
		l.Matches = all[i].History(func(key string) bool { return strings.Contains(key, search) })
		l.Matches = l.Matches[:min(len(l.Matches), explainLimit)]
	}
	switch formOf(req) {
	case asJSON:
		answerJSON(w, l)
	case asHTML:
		p.render(w, http.StatusOK, p.loopView(req, l, now))
	default:
		answerText(w, func(b *bytes.Buffer) error { return WriteLoop(b, l.State, l.Search, l.Matches) })
	}
}

func (p *Page) serveUnknown(w http.ResponseWriter, req *http.Request, name string) {
	why := fmt.Sprintf("no controller %q is running here; %s lists those that are", name, Path)
	if formOf(req) != asHTML {
		http.Error(w, why, http.StatusNotFound)
		return
	}
	v := p.frame(req, "Not found", time.Now())
	v.Refresh = 0
	p.render(w, http.StatusNotFound, unknownView{v, why})
}

// view is what a page shows.
type view interface{ write(*markup) }

// render answers with a page.
func (p *Page) render(w http.ResponseWriter, status int, v view) {
	var m markup
	v.write(&m)
	h := w.Header()
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	answer(w, "text/html; charset=utf-8", status, []byte(m.String()))
}

func answerJSON(w http.ResponseWriter, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, "encode: "+err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, "application/json", http.StatusOK, text)
}

func answerText(w http.ResponseWriter, write func(*bytes.Buffer) error) {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, "text/plain; charset=utf-8", http.StatusOK, text.Bytes())
}

// answer writes a response. A failed write means that the client has gone away, which is not an error here.
func answer(w http.ResponseWriter, contentType string, status int, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		klog.V(4).InfoS("Answer not written", "err", err)
	}
}
