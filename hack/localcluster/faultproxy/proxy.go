package faultproxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"orrery/hack/localcluster/cluster"
)

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	server *httptest.Server
	users  http.Handler // for requests with a client certificate
	tokens http.Handler // for requests with a token

	mu     sync.Mutex // guards before and change
	before Before
	change Change
}

// Before is asked about a request before it is handed on. It returns true when
// it has answered the request itself, and may call Lose.
type Before func(http.ResponseWriter, *http.Request) bool

// Change may change an answer of the API server. An error makes the answer get
// lost: the client sees the connection end.
type Change func(*http.Response) error

// New starts a proxy in front of a cluster's API server. The caller closes it.
func New(c *cluster.Cluster) (*Proxy, error) {
	target, err := url.Parse(c.Server())
	if err != nil {
		return nil, fmt.Errorf("read address of kube-apiserver: %w", err)
	}
	files := c.PKI()
	ca, err := os.ReadFile(files.CACert)
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	front, err := tls.LoadX509KeyPair(files.FrontProxyCert, files.FrontProxyKey)
	if err != nil {
		return nil, fmt.Errorf("read front proxy certificate: %w", err)
	}
	serving, err := issue(files)
	if err != nil {
		return nil, err
	}
	p := &Proxy{}
	p.users = p.forward(target, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{front}})
	p.tokens = p.forward(target, &tls.Config{RootCAs: roots})
	p.server = httptest.NewUnstartedServer(p)
	p.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{serving},
		ClientAuth:   tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	return p, nil
}

func (p *Proxy) forward(target *url.URL, config *tls.Config) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { Lose() }
	proxy.ModifyResponse = func(r *http.Response) error {
		p.mu.Lock()
		change := p.change
		p.mu.Unlock()
		if change == nil {
			return nil
		}
		return change(r)
	}
	return proxy
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	before := p.before
	p.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "" || len(r.TLS.PeerCertificates) == 0 {
		p.tokens.ServeHTTP(w, r)
		return
	}
	subject := r.TLS.PeerCertificates[0].Subject
	r.Header.Set("X-Remote-User", subject.CommonName)
	for _, group := range append(subject.Organization, "system:authenticated") {
		r.Header.Add("X-Remote-Group", group)
	}
	p.users.ServeHTTP(w, r)
}

// Misbehave sets what is done before a request is handed on and with the
// answer, from the next request on. Either may be nil.
func (p *Proxy) Misbehave(before Before, change Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.change = before, change
}

// URL is the address to use in place of the API server's.
func (p *Proxy) URL() string { return p.server.URL }

// Cut ends every connection of the clients, watches included.
func (p *Proxy) Cut() { p.server.CloseClientConnections() }

// Close ends the proxy.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
}

// WriteKubeconfig writes a copy of a kubeconfig file that leads through the
// proxy.
func (p *Proxy) WriteKubeconfig(from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server = p.URL()
	}
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
