package serving

import (
	"net/http"
	"slices"
	"sync"
)

// Mux finds the handler for a path. Handlers may be added while it serves, as
// controllers are only known once the lease is held. Registering a path twice panics.
type Mux struct {
	mux http.ServeMux

	mu    sync.Mutex // guards paths
	paths []string
}

// NewMux returns a Mux that answers 404 to everything.
func NewMux() *Mux { return &Mux{} }

// Handle serves a path and lists it in Paths. A path that ends in a slash stands for everything below it.
func (m *Mux) Handle(path string, handler http.Handler) {
	m.HandleUnlisted(path, handler)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paths = append(m.paths, path)
}

// HandleUnlisted is Handle for pages that are not to be advertised.
func (m *Mux) HandleUnlisted(path string, handler http.Handler) { m.mux.Handle(path, handler) }

// Paths returns the listed paths, sorted.
func (m *Mux) Paths() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.paths))
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, req *http.Request) { m.mux.ServeHTTP(w, req) }
