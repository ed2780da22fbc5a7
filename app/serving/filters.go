package serving

import (
	"net/http"
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
		if p := httpx.Serve(next, answer, req); p != nil {
			klog.ErrorS(nil, "Panic in an HTTP handler", "method", req.Method, "path", path, "panic", p.Value, "stack", string(p.Stack))
		}
		klog.V(4).InfoS("HTTP", "method", req.Method, "path", path, "status", answer.Status,
			"latency", time.Since(start), "userAgent", req.UserAgent(), "remote", req.RemoteAddr)
	})
}

// withoutCaching keeps proxies and browsers from storing what only this caller may see.
func withoutCaching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private")
		next.ServeHTTP(w, req)
	})
}
