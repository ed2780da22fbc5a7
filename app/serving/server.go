package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"orrery/kit/httpx"
	"orrery/options/serving"
)

const (
	defaultReloadInterval  = 20 * time.Second
	defaultLookupTimeout   = 10 * time.Second
	defaultShutdownTimeout = 5 * time.Second

	// readHeaderTimeout and idleTimeout free connections whose clients have gone quiet. Nothing bounds
	// the time to answer: a CPU profile takes as long as its caller asks.
	readHeaderTimeout = 32 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeaderBytes    = 1 << 20

	// defaultMaxStreams is what HTTP/2 clients assume anyway; receiveBuffer is small because hardly any request has a body.
	defaultMaxStreams = 100
	receiveBuffer     = 256 << 10
)

// Config says what a Server serves and how. The zero value of every field below Handler means its default.
type Config struct {
	Secure         serving.SecureOptions
	Authentication serving.AuthenticationOptions
	Authorization  serving.AuthorizationOptions
	// Handler gets the requests that passed authentication and authorization; usually a Mux.
	Handler http.Handler

	// Listener is used instead of binding the address in Secure.
	Listener net.Listener
	// ReloadInterval is how often certificate files are read again; 20 s.
	ReloadInterval time.Duration
	// LookupTimeout is how long New waits for the cluster's authentication settings; 10 s.
	LookupTimeout time.Duration
	// ShutdownTimeout is how long requests may still run after the context of Run has ended; 5 s.
	ShutdownTimeout time.Duration
}

// Server serves HTTPS. New makes it, Run runs it, once.
type Server struct {
	http            *http.Server
	listener        net.Listener
	shutdownTimeout time.Duration

	tls      *tlsState
	reload   reloader
	settings *clusterSettings // nil if nothing is read from the cluster
}

// New loads the certificates, reads the cluster's authentication settings if they are
// needed and binds the port, so that whatever is wrong with the options is said here.
// It returns nil and no error when the options turn HTTPS off.
func New(ctx context.Context, c Config) (*Server, error) {
	if !c.Secure.Enabled() && c.Listener == nil {
		klog.InfoS("HTTPS is turned off", "flag", "--secure-port=0")
		return nil, nil
	}
	for _, warning := range c.Authentication.Warnings() {
		klog.InfoS("Questionable setting", "warning", warning)
	}
	s := &Server{shutdownTimeout: cmp.Or(c.ShutdownTimeout, defaultShutdownTimeout)}
	s.reload.interval = cmp.Or(c.ReloadInterval, defaultReloadInterval)

	who, err := s.identities(c.Authentication)
	if err != nil {
		return nil, err
	}
	reviews, err := accessReviews(c.Authorization)
	if err != nil {
		return nil, err
	}
	if s.tls, err = newTLSState(c.Secure, who.bundles()); err != nil {
		return nil, err
	}
	watchFiles(&s.reload, s.tls.byDefault)
	watchFiles(&s.reload, s.tls.sni...)
	s.reload.changed = s.tls.rebuild

	// The port is taken before the lookup, which may wait, so that a taken port is reported at once.
	if s.listener = c.Listener; s.listener == nil {
		if s.listener, err = listen(ctx, c.Secure); err != nil {
			return nil, err
		}
	}
	if err := s.lookup(ctx, c.Authentication, cmp.Or(c.LookupTimeout, defaultLookupTimeout)); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	handler := withAuthorization(newOpenPaths(c.Authorization.AlwaysAllowPaths), reviews, c.Handler)
	handler = withAuthentication(who.authenticator(), handler)
	s.http = newHTTPServer(c.Secure, s.tls, withRecovery(withoutCaching(handler)))
	return s, nil
}

// newHTTPServer sets the limits that keep a slow or hostile client from holding on to memory.
func newHTTPServer(o serving.SecureOptions, state *tlsState, handler http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!o.DisableHTTP2)
	return &http.Server{
		Handler:           handler,
		TLSConfig:         state.listenerConfig(),
		Protocols:         &protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          httpx.ErrorLog(klog.Background()),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          cmp.Or(o.HTTP2MaxStreams, defaultMaxStreams),
			MaxReadFrameSize:              receiveBuffer,
			MaxReceiveBufferPerStream:     receiveBuffer,
			MaxReceiveBufferPerConnection: 4 * receiveBuffer,
		},
	}
}

// identities sets up the sources of authentication the options ask for.
func (s *Server) identities(o serving.AuthenticationOptions) (identities, error) {
	config, err := reviewConfig("authentication-kubeconfig", o.Kubeconfig)
	if err != nil {
		return identities{}, err
	}
	tokens, core, err := authenticationClients(config)
	if err != nil {
		return identities{}, err
	}
	who := identities{tokens: cachedTokens(tokens, o)}
	cluster := &clusterSettings{client: core, changed: func() { s.tls.rebuild() }}
	lookup := !o.SkipLookup && core != nil

	switch {
	case o.ClientCAFile != "":
		who.clientCA = &caBundle{source: "--client-ca-file", file: o.ClientCAFile}
	case lookup:
		who.clientCA = &caBundle{source: clientCAKey}
		cluster.clientCA = who.clientCA
	}
	switch {
	case o.RequestHeader.ClientCAFile != "":
		who.proxyCA = &caBundle{source: "--requestheader-client-ca-file", file: o.RequestHeader.ClientCAFile}
		who.headers = givenHeaders(o.RequestHeader)
	case lookup:
		who.proxyCA, who.headers = &caBundle{source: proxyCAKey}, &proxyHeaders{}
		cluster.proxyCA, cluster.headers = who.proxyCA, who.headers
	}
	for _, bundle := range who.bundles() {
		if _, err := bundle.load(); err != nil {
			return identities{}, err
		}
		watchFiles(&s.reload, bundle)
	}
	if cluster.clientCA != nil || cluster.proxyCA != nil {
		s.settings = cluster
	} else if core == nil && !o.SkipLookup && (who.clientCA == nil || who.proxyCA == nil) {
		klog.InfoS("Client certificate or request header authentication is off: neither the CA file nor --authentication-kubeconfig is given")
	}
	return who, nil
}

// givenHeaders are the proxy settings of the flags, in the shape of those of the cluster.
func givenHeaders(o serving.RequestHeaderOptions) *proxyHeaders {
	h := &proxyHeaders{}
	h.current.Store(&map[string][]string{
		usernameHeadersKey: o.UsernameHeaders, uidHeadersKey: o.UIDHeaders, groupHeadersKey: o.GroupHeaders,
		extraPrefixesKey: o.ExtraHeaderPrefixes, allowedNamesKey: o.AllowedNames,
	})
	return h
}

func accessReviews(o serving.AuthorizationOptions) (*accessReviewer, error) {
	config, err := reviewConfig("authorization-kubeconfig", o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	reviews, err := authorizationClient(config)
	if err != nil {
		return nil, err
	}
	if reviews == nil {
		klog.InfoS("Only open paths and system:masters are served: --authorization-kubeconfig is not given")
		return nil, nil
	}
	return newAccessReviewer(reviews, o.AllowedTTL, o.DeniedTTL), nil
}

// lookup reads the cluster's settings for the first time. Failing that is fatal only
// where the trusted proxies are at stake: without a client CA the server refuses
// certificates, which is safe, and the watch will bring it.
func (s *Server) lookup(ctx context.Context, o serving.AuthenticationOptions, timeout time.Duration) error {
	if s.settings == nil {
		return nil
	}
	err := s.settings.lookup(ctx, timeout)
	if err == nil {
		return nil
	}
	if o.TolerateLookupFailure || s.settings.proxyCA == nil {
		klog.ErrorS(err, "Authentication settings of the cluster not read; continuing without, requests may count as anonymous")
		return nil
	}
	return fmt.Errorf("read config map %s/%s for the missing --requestheader-client-ca-file "+
		"(give it, or --authentication-skip-lookup, or --authentication-tolerate-lookup-failure): %w", "kube-system", settingsName, err)
}

// Addr returns the address the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until the context ends, then lets requests finish for the shutdown
// timeout and cuts the rest. It returns when everything it started has ended; an
// error means that serving broke by itself.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	background.Go(func() { wait.UntilWithContext(ctx, s.reload.once, s.reload.interval) })
	if s.settings != nil {
		background.Go(func() { s.settings.watch(ctx) })
	}
	served := make(chan error, 1)
	background.Go(func() { served <- s.http.ServeTLS(s.listener, "", "") })
	klog.InfoS("Serving HTTPS", "address", s.Addr().String())

	var err error
	select {
	case <-ctx.Done():
		err = s.shutdown(ctx)
	case err = <-served:
		err = fmt.Errorf("serve HTTPS on %s: %w", s.Addr(), err)
	}
	cancel()
	background.Wait()
	return err
}

// shutdown stops accepting, waits, and closes what is still open.
func (s *Server) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		klog.InfoS("HTTPS requests cut off", "shutdownTimeout", s.shutdownTimeout)
		err = s.http.Close()
	}
	klog.V(2).InfoS("Stopped serving HTTPS", "address", s.Addr().String())
	return err
}
