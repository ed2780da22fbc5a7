package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	compmetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"orrery/kit/httpx"
)

// DefaultPort is where webhooks are usually served.
const DefaultPort = 9443

const (
	defaultReloadInterval  = 10 * time.Second
	defaultShutdownTimeout = 5 * time.Second
	readHeaderTimeout      = 32 * time.Second
	readTimeout            = time.Minute
	idleTimeout            = 90 * time.Second
	checkTimeout           = 2 * time.Second
)

// Options configures New.
type Options struct {
	// Host to listen on; empty means all addresses.
	Host string
	// Port to listen on; 0 means DefaultPort.
	Port int
	// CertDir holds the serving certificate and its key, usually a mounted Secret of type kubernetes.io/tls. Required.
	CertDir string
	// CertName and KeyName are the files in it; empty means tls.crt and tls.key.
	CertName, KeyName string
	// Scheme maps the Go types of handlers to kinds. Required.
	Scheme *runtime.Scheme
	// Listener is used instead of Host and Port.
	Listener net.Listener
	// ReloadInterval is how often the certificate is reloaded; 0 means 10 s.
	ReloadInterval time.Duration
	// Log receives errors.
	Log klog.Logger
}

// Server serves webhooks. New creates it, Add registers handlers, and Run serves; it must be called only once.
type Server struct {
	scheme      *runtime.Scheme
	log         klog.Logger
	listener    net.Listener
	certificate *certificate
	reload      time.Duration
	mux         http.ServeMux
	metrics     *serverMetrics

	mu    sync.Mutex // guards paths
	paths map[string]bool
}

// New loads the certificate and binds the port, so that invalid options are reported here.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Scheme == nil {
		return nil, errors.New("webhook options: Scheme is required")
	}
	if o.CertDir == "" {
		return nil, errors.New("webhook options: CertDir is required: the API server speaks TLS only")
	}
	c := &certificate{
		certFile: filepath.Join(o.CertDir, cmp.Or(o.CertName, "tls.crt")), keyFile: filepath.Join(o.CertDir, cmp.Or(o.KeyName, "tls.key")),
		log: o.Log,
	}
	if _, err := c.load(); err != nil {
		return nil, fmt.Errorf("webhook certificate: %w", err)
	}
	listener := o.Listener
	if listener == nil {
		address := net.JoinHostPort(o.Host, strconv.Itoa(cmp.Or(o.Port, DefaultPort)))
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
			return nil, fmt.Errorf("listen for webhooks on %s: %w", address, err)
		}
	}
	return &Server{
		scheme: o.Scheme, log: o.Log, listener: listener, certificate: c, reload: cmp.Or(o.ReloadInterval, defaultReloadInterval),
		metrics: newMetrics(), paths: map[string]bool{},
	}, nil
}

// Name returns the name of the server for logs.
func (s *Server) Name() string { return "webhook server" }

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Registerables returns the metrics for registration. Register them before Add, so that each series starts at zero.
func (s *Server) Registerables() []compmetrics.Registerable { return s.metrics.all() }

// Handle serves a path with any http.Handler; as with Add, panics are caught and requests are measured. It may be called
// while the server runs.
func (s *Server) Handle(path string, handler http.Handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasPrefix(path, "/") || s.paths[path] {
		return fmt.Errorf("webhook path %q: has to begin with a slash and to be used once", path)
	}
	s.paths[path] = true
	s.metrics.start(path)
	s.mux.Handle(path, measured{path, handler, s})
	return nil
}

// Handler returns the handler that serves all paths, for tests without a network.
func (s *Server) Handler() http.Handler { return &s.mux }

// Run serves until ctx ends, then gives requests in flight a grace period and closes the remaining connections. It returns
// when everything it started has ended; an error means that serving failed by itself.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: &s.mux, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: s.certificate.get},
		ErrorLog:  httpx.ErrorLog(s.log),
	}
	var background sync.WaitGroup
	background.Go(func() { s.certificate.watch(ctx, s.reload) })
	served := make(chan error, 1)
	background.Go(func() { served <- server.ServeTLS(s.listener, "", "") })
	s.log.Info("Serving webhooks", "address", s.Addr().String())

	var err error
	select {
	case <-ctx.Done():
		last, done := context.WithTimeout(context.WithoutCancel(ctx), defaultShutdownTimeout)
		defer done()
		if err = server.Shutdown(last); errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
	case err = <-served:
		err = fmt.Errorf("serve webhooks on %s: %w", s.Addr(), err)
	}
	cancel()
	background.Wait()
	return err
}

// Check makes a TLS handshake with the server. It fails until Run has begun to serve.
func (s *Server) Check(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	// The certificate is issued for the name that the API server uses, not for this address.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", reachable(s.Addr()))
	if err != nil {
		return fmt.Errorf("the webhook server does not answer: %w", err)
	}
	return conn.Close()
}

// Close releases the port of a server that is never run.
func (s *Server) Close() error { return s.listener.Close() }

// reachable returns an address to dial a listener, even if it listens on all addresses.
func reachable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("localhost", strconv.Itoa(t.Port))
}
