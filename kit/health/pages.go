package health

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

// healthPage is one of the three endpoints.
type healthPage struct {
	name   string // without slash; also the metric label
	health *Checks
	// lists and decides select the checks that the page shows, and those that make it fail.
	lists, decides func(Scope) bool
}

func anyScope(Scope) bool      { return true }
func processOnly(s Scope) bool { return s == Process }

// Mux registers handlers for paths. A path that ends in a slash stands for everything below it. An unlisted path is left out
// where the mux lists its pages.
type Mux interface {
	Handle(path string, handler http.Handler)
	HandleUnlisted(path string, handler http.Handler)
}

// Install registers the three pages, and those of single checks below them, with a mux.
func (h *Checks) Install(m Mux) {
	for _, page := range []healthPage{
		{"healthz", h, anyScope, processOnly},
		{"livez", h, processOnly, processOnly},
		{"readyz", h, anyScope, anyScope},
	} {
		m.Handle("/"+page.name, http.HandlerFunc(page.root))
		m.HandleUnlisted("/"+page.name+"/", http.HandlerFunc(page.single))
	}
}

// probes returns the checks the page shows.
func (p healthPage) probes() []*probe {
	return slices.DeleteFunc(p.health.all(), func(pr *probe) bool { return !p.lists(pr.scope) })
}

// root answers for all checks together. Callers may be anonymous, so the errors go to the log only.
func (p healthPage) root(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	probes, excluded, unknown := exclude(p.probes(), query["exclude"])
	errs := runAll(probes, req, p.name)

	var lines bytes.Buffer
	var failed []string
	for _, name := range excluded {
		fmt.Fprintf(&lines, "[+]%s excluded: ok\n", name)
	}
	for i, pr := range probes {
		name := pr.check.Name()
		switch {
		case errs[i] == nil:
			fmt.Fprintf(&lines, "[+]%s ok\n", name)
		case p.decides(pr.scope):
			fmt.Fprintf(&lines, "[-]%s failed: reason withheld\n", name)
			failed = append(failed, fmt.Sprintf("%s: %v", name, errs[i]))
		default:
			fmt.Fprintf(&lines, "[!]%s degraded: reason withheld\n", name)
			klog.V(4).InfoS("Health check degraded", "endpoint", p.name, "check", name, "err", errs[i])
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(&lines, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(unknown, ","))
	}
	if len(failed) > 0 {
		klog.V(2).InfoS("Health check failed", "endpoint", p.name, "checks", failed)
		http.Error(w, fmt.Sprintf("%s%s check failed", lines.String(), p.name), http.StatusInternalServerError)
		return
	}
	if !query.Has("verbose") {
		writeText(w, []byte("ok"))
		return
	}
	fmt.Fprintf(&lines, "%s check passed\n", p.name)
	writeText(w, lines.Bytes())
}

// exclude removes the named checks. It also returns the names that were found, and, quoted, those that were not.
func exclude(probes []*probe, names []string) (rest []*probe, excluded, unknown []string) {
	for _, pr := range probes {
		if name := pr.check.Name(); slices.Contains(names, name) {
			excluded = append(excluded, name)
		} else {
			rest = append(rest, pr)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if !slices.Contains(excluded, name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	return rest, excluded, unknown
}

// single answers for the check that the path names, with its error: this path requires authorization.
func (p healthPage) single(w http.ResponseWriter, req *http.Request) {
	name := strings.TrimPrefix(req.URL.Path, "/"+p.name+"/")
	probes := p.probes()
	i := slices.IndexFunc(probes, func(pr *probe) bool { return pr.check.Name() == name })
	if i < 0 {
		http.NotFound(w, req)
		return
	}
	if err := runAll(probes[i:i+1], req, p.name)[0]; err != nil {
		http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		return
	}
	writeText(w, []byte("ok"))
}

// writeText answers 200. A failed write means that the caller has gone away, which is not an error here.
func writeText(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := w.Write(body); err != nil {
		klog.V(4).InfoS("Answer not written", "err", err)
	}
}
