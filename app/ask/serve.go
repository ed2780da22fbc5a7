package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"orrery/kit/status"
)

// serve passes the status page on to browsers on this machine, until ctx ends.
func (d *daemon) serve(ctx context.Context, listen string, out io.Writer) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || !loopback(host) {
		return fmt.Errorf("--listen: %q is not a loopback address such as 127.0.0.1:8010; everybody who can reach it would see what you may see", listen)
	}
	// Ask once, so that what is wrong is said here and not in a browser.
	if _, err := d.get(ctx, nil); err != nil {
		return err
	}
	handler, err := d.forward()
	if err != nil {
		return err
	}
	bound, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: timeout}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if _, err := fmt.Fprintf(out, "http://%s%s\n", bound.Addr(), status.Path); err != nil {
		return err
	}
	if err := server.Serve(bound); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// forward returns the handler that passes requests for the page on, with the credentials.
func (d *daemon) forward() (http.Handler, error) {
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the credentials: %w", err)
	}
	to, err := url.Parse(d.Server)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: time.Second,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Authorization") // the browser's own credentials must not reach the daemon
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// A page elsewhere that has its name resolve to this machine must not read it.
		host := req.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		switch {
		case !loopback(strings.Trim(host, "[]")):
			http.Error(w, "request this page at a loopback address", http.StatusForbidden)
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			http.Error(w, "this page is read-only", http.StatusMethodNotAllowed)
		case req.URL.Path == "/":
			http.Redirect(w, req, status.Path, http.StatusFound)
		case req.URL.Path != status.Path && !strings.HasPrefix(req.URL.Path, status.Path+"/"):
			http.NotFound(w, req)
		default:
			proxy.ServeHTTP(w, req)
		}
	}), nil
}
