package httpx

import "net/http"

// StatusWriter remembers what has been answered. Handlers that need more of the connection get at it through
// http.ResponseController, which uses Unwrap.
type StatusWriter struct {
	http.ResponseWriter
	// Status is that of the answer; 0 until something has been answered.
	Status int
}

// WriteHeader implements http.ResponseWriter.
func (w *StatusWriter) WriteHeader(status int) {
	if w.Status == 0 {
		w.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *StatusWriter) Write(body []byte) (int, error) {
	if w.Status == 0 {
		w.Status = http.StatusOK
	}
	return w.ResponseWriter.Write(body)
}

// Unwrap returns the writer underneath.
func (w *StatusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
