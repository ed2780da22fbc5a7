package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* and leader_election_* metrics
	"k8s.io/component-base/metrics/prometheus/clientgo/fifo"
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // workqueue_* metrics
	"k8s.io/klog/v2"

	"orrery/kit"
)

const (
	readHeaderTimeout = 32 * time.Second
	idleTimeout       = 90 * time.Second
	pagesTimeout      = 5 * time.Second // for requests in flight when a page server stops
)

// pages is a mux on which health checks can be installed.
type pages struct{ http.ServeMux }

// HandleUnlisted implements health.Mux.
func (p *pages) HandleUnlisted(path string, handler http.Handler) { p.Handle(path, handler) }

// listen binds the ports of the metrics and health pages.
func (m *Manager) listen() error {
	var metrics, health pages
	fifo.Register() // informer_* metrics
	metrics.Handle("/metrics", legacyregistry.Handler())
	m.o.Checks.Install(&health)
	return errors.Join(m.listenFor("metrics", m.o.Metrics, &metrics), m.listenFor("health", m.o.Health, &health))
}

func (m *Manager) listenFor(name string, l Listener, mux *pages) error {
	if l.off() {
		return nil
	}
	// A mux panics on conflicting patterns.
	err := kit.Guard(func() error {
		for _, path := range slices.Sorted(maps.Keys(l.Handlers)) {
			mux.Handle(path, l.Handlers[path])
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s pages: %w", name, err)
	}
	bound, err := (&net.ListenConfig{}).Listen(m.life, "tcp", l.Address)
	if err != nil {
		return fmt.Errorf("listen for %s on %s: %w", name, l.Address, err)
	}
	m.listeners[name] = bound
	if l.TLS != nil {
		bound = tls.NewListener(bound, l.TLS)
	}
	return m.servers.add(&pageServer{name, bound, mux, m.o.Log})
}

// Address returns where the "metrics" or "health" pages are served; nil if they are not.
func (m *Manager) Address(pages string) net.Addr {
	if l := m.listeners[pages]; l != nil {
		return l.Addr()
	}
	return nil
}

// pageServer serves pages on a port.
type pageServer struct {
	name     string
	listener net.Listener
	handler  http.Handler
	log      klog.Logger
}

// Name names the runnable.
func (s *pageServer) Name() string { return s.name + " server" }

// Run implements Runnable.
func (s *pageServer) Run(ctx context.Context) error {
	server := &http.Server{Handler: s.handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	s.log.Info("Serving pages", "pages", s.name, "address", s.listener.Addr().String())
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", s.listener.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), pagesTimeout)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-served
	return err
}
