package serving

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Debugger shows what controllers are doing. Its methods are called by several
// requests at once, also before any controller runs.
type Debugger interface {
	// DebugNames returns the names that can be asked for. A name may have slashes.
	DebugNames() []string
	// DebugJSON returns a value to encode for a name.
	DebugJSON(name string) (any, error)
	// DebugText writes the same for people.
	DebugText(w io.Writer, name string) error
}

// controllersPage serves /debug/controllers and /debug/controllers/<name>.
type controllersPage struct{ debugger Debugger }

func (p controllersPage) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := strings.Trim(strings.TrimPrefix(req.URL.Path, "/debug/controllers"), "/")
	names := slices.Sorted(slices.Values(p.debugger.DebugNames()))
	switch {
	case name == "":
		p.index(w, req, names)
	case !slices.Contains(names, name):
		http.Error(w, fmt.Sprintf("no controller %q is running here; /debug/controllers lists those that are", name), http.StatusNotFound)
	case wantsJSON(req):
		value, err := p.debugger.DebugJSON(name)
		if err != nil {
			answerInternalError(w, req, fmt.Errorf("show controller %s: %w", name, err))
			return
		}
		answerJSON(w, req, "application/json", value, "  ")
	default:
		// Written to memory first, so that an error can still change the status.
		var text bytes.Buffer
		if err := p.debugger.DebugText(&text, name); err != nil {
			answerInternalError(w, req, fmt.Errorf("show controller %s: %w", name, err))
			return
		}
		writeBody(w, "text/plain; charset=utf-8", text.Bytes())
	}
}

func (p controllersPage) index(w http.ResponseWriter, req *http.Request, names []string) {
	if wantsJSON(req) {
		answerJSON(w, req, "application/json", map[string][]string{"controllers": append([]string{}, names...)}, "  ")
		return
	}
	writeBody(w, "text/plain; charset=utf-8", []byte(strings.Join(append(names, ""), "\n")))
}

// wantsJSON is true if the query says so or the first choice of the Accept header is JSON.
func wantsJSON(req *http.Request) bool {
	if format := req.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	clauses := parseAccept(req.Header.Get("Accept"))
	return len(clauses) > 0 && clauses[0].mediaType == "application/json"
}
