package serving

import (
	"log"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit/httpx"
)

// withRecovery answers 500 when a handler panics, and logs every request at V(4).
func withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		start := time.Now()
		answer := &httpx.StatusWriter{ResponseWriter: w}
		path := req.URL.Path
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					// The handler asks for the connection to be cut, which the server does.
					panic(p)
				}
				klog.ErrorS(nil, "Panic in an HTTP handler", "method", req.Method, "path", path, "panic", p, "stack", string(debug.Stack()))
				if answer.Status == 0 {
					http.Error(answer, "This request made the server panic; its log says more.", http.StatusInternalServerError)
				}
			}
			klog.V(4).InfoS("HTTP", "method", req.Method, "path", path, "status", answer.Status,
				"latency", time.Since(start), "userAgent", req.UserAgent(), "remote", req.RemoteAddr)
		}()
		next.ServeHTTP(answer, req)
	})
}

// withoutCaching keeps proxies and browsers from storing what only this caller may see.
func withoutCaching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private")
		next.ServeHTTP(w, req)
	})
}

// serverLog takes the complaints of net/http. Failed handshakes are the fault of
// whoever connected, come in floods from port scanners, and are only worth a trace.
func serverLog() *log.Logger { return log.New(logWriter{}, "", 0) }

type logWriter struct{}

func (logWriter) Write(line []byte) (int, error) {
	message := strings.TrimSpace(string(line))
	if strings.HasPrefix(message, "http: TLS handshake error") {
		klog.V(5).InfoS("TLS handshake failed", "message", message)
	} else {
		klog.InfoS("HTTP server", "message", message)
	}
	return len(line), nil
}
