package httpx

import "net/http"

// StatusWriter remembers the status of the response. Handlers reach the optional methods of the underlying writer through
// http.ResponseController, which uses Unwrap.
type StatusWriter struct {
	http.ResponseWriter
	// Status is the status code that was sent; 0 until then.
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
