package scenarios

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
	"testing"
	"time"
)

// faults is an HTTPS proxy in front of the API server that a test can make misbehave. It vouches for client
// certificates as the front proxy of the cluster and hands tokens on.
type faults struct {
	server *httptest.Server
	users  http.Handler // for requests with a client certificate
	tokens http.Handler // for requests with a token

	mu     sync.Mutex // guards before and change
	before func(http.ResponseWriter, *http.Request) bool
	change func(*http.Response) error
}

// newFaults starts a proxy that ends with the test.
func newFaults(t *testing.T, e *env) *faults {
	t.Helper()
	f := &faults{}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(e.PKI().CACert))(t))
	front := must(tls.LoadX509KeyPair(e.PKI().FrontProxyCert, e.PKI().FrontProxyKey))(t)
	f.users = f.forward(t, e, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{front}})
	f.tokens = f.forward(t, e, &tls.Config{RootCAs: roots})
	f.server = httptest.NewUnstartedServer(f)
	f.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{e.issue(t, "proxy").tls(t)},
		ClientAuth:   tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.StartTLS()
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

func (f *faults) forward(t *testing.T, e *env, config *tls.Config) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(must(url.Parse(e.Server()))(t))
	proxy.Transport = &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	proxy.ModifyResponse = func(r *http.Response) error {
		f.mu.Lock()
		change := f.change
		f.mu.Unlock()
		if change == nil {
			return nil
		}
		return change(r)
	}
	return proxy
}

// ServeHTTP implements http.Handler.
func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "" || len(r.TLS.PeerCertificates) == 0 {
		f.tokens.ServeHTTP(w, r)
		return
	}
	subject := r.TLS.PeerCertificates[0].Subject
	r.Header.Set("X-Remote-User", subject.CommonName)
	for _, group := range append(subject.Organization, "system:authenticated") {
		r.Header.Add("X-Remote-Group", group)
	}
	f.users.ServeHTTP(w, r)
}

// misbehave sets what is done before a request is handed on, which returns true when it has answered it, and what is
// done with an answer. Either may be nil.
func (f *faults) misbehave(before func(http.ResponseWriter, *http.Request) bool, change func(*http.Response) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.change = before, change
}

// refuseWith answers as the API server does when it refuses.
func refuseWith(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"storm","reason":%q,"code":%d}`, reason, code)
}

// lost makes an answer get lost: the client sees the connection end.
func lost() { panic(http.ErrAbortHandler) }

// late hands on what it reads when it has got that old.
type late struct {
	chunks <-chan chunk
	rest   []byte
	body   io.Closer
}

type chunk struct {
	data []byte
	due  time.Time
}

func delayed(body io.ReadCloser, by time.Duration) io.ReadCloser {
	chunks := make(chan chunk, 4096)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 32<<10)
			n, err := body.Read(buffer)
			if n > 0 {
				chunks <- chunk{buffer[:n], time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	}()
	return &late{chunks: chunks, body: body}
}

func (l *late) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		next, open := <-l.chunks
		if !open {
			return 0, io.EOF
		}
		time.Sleep(time.Until(next.due))
		l.rest = next.data
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *late) Close() error { return l.body.Close() }
