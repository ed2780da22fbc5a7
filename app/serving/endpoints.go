package serving

import (
	"io"
	"net/http"
	"net/http/pprof"
	"runtime"

	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"

	"orrery/kit/health"
	"orrery/kit/status"
)

// Endpoints says which of the usual pages there are and what they show. A field left
// at its zero value leaves its page out; /metrics is always there.
type Endpoints struct {
	// Component is the name in the titles of the pages, as kube-controller-manager.
	Component string
	// Health serves /healthz, /livez and /readyz.
	Health *health.Checks
	// Configz returns the component configurations for /configz by their API group.
	Configz func() map[string]any
	// Flags returns the command line flags for /flagz with their values; see FlagValues.
	Flags func() map[string]string
	// Status serves /statusz.
	Status *Status
	// Profiling serves /debug/pprof and /debug/flags/v.
	Profiling bool
	// ContentionProfiling also records where goroutines block. It needs Profiling.
	ContentionProfiling bool
	// Controllers serves /debug/controllers and what is below it.
	Controllers http.Handler
}

// Install puts the pages on the mux. Other pages may be added to it before or after.
func (e Endpoints) Install(m *Mux) {
	if e.Health != nil {
		e.Health.Install(m)
	}
	m.Handle("/metrics", legacyregistry.Handler())
	slis.SLIMetricsWithReset{}.Install(m)
	if e.Configz != nil {
		m.Handle("/configz", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			answerJSON(w, req, "application/json", e.Configz(), "")
		}))
	}
	if e.Profiling {
		installProfiling(m, e.ContentionProfiling)
	}
	if e.Controllers != nil {
		m.HandleUnlisted(status.Path, e.Controllers)
		m.HandleUnlisted(status.Path+"/", e.Controllers)
	}
	if e.Flags != nil {
		m.Handle("/flagz", flagzPage{e.Component, e.Flags})
	}
	if e.Status != nil {
		// It lists the other pages, so it need not list itself.
		m.HandleUnlisted("/statusz", statuszPage{e.Component, *e.Status, m.Paths})
	}
}

func installProfiling(m *Mux, contention bool) {
	m.HandleUnlisted("/debug/pprof/", http.HandlerFunc(pprof.Index))
	m.HandleUnlisted("/debug/pprof/profile", http.HandlerFunc(pprof.Profile))
	m.HandleUnlisted("/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	m.HandleUnlisted("/debug/pprof/trace", http.HandlerFunc(pprof.Trace))
	if contention {
		runtime.SetBlockProfileRate(1)
	}
	m.HandleUnlisted("/debug/flags", http.HandlerFunc(listDebugFlags))
	m.HandleUnlisted("/debug/flags/", http.HandlerFunc(listDebugFlags))
	m.HandleUnlisted("/debug/flags/v", http.HandlerFunc(setVerbosity))
}

func listDebugFlags(w http.ResponseWriter, _ *http.Request) {
	writeBody(w, "text/plain; charset=utf-8", []byte("Flags that can be changed with PUT /debug/flags/<name>:\n\nv  log verbosity\n"))
}

// setVerbosity changes -v of the running process: curl -X PUT -d 5 .../debug/flags/v.
func setVerbosity(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPut {
		http.Error(w, "unsupported http method", http.StatusNotAcceptable)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1024))
	if err != nil {
		http.Error(w, "error reading request body: "+err.Error(), http.StatusBadRequest)
		return
	}
	message, err := logs.GlogSetter(string(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeBody(w, "text/plain", []byte(message+"\n"))
}
