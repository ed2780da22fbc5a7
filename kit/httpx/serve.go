package httpx

import (
	"errors"
	"log"
	"net/http"
	"strings"

	"k8s.io/klog/v2"

	"orrery/kit"
)

// Serve has a handler answer a request. If the handler panics, Serve returns the panic, for the caller to log, and answers
// with status 500 unless the handler has answered. http.ErrAbortHandler is passed on: with it a handler asks the server to
// cut the connection.
func Serve(handler http.Handler, w *StatusWriter, r *http.Request) *kit.PanicError {
	err := kit.Guard(func() error {
		handler.ServeHTTP(w, r)
		return nil
	})
	panicked, ok := errors.AsType[*kit.PanicError](err)
	if !ok {
		return nil
	}
	if panicked.Value == http.ErrAbortHandler {
		panic(http.ErrAbortHandler)
	}
	if w.Status == 0 {
		http.Error(w, "The handler of this request panicked; the server's log says more.", http.StatusInternalServerError)
	}
	return panicked
}

// ErrorLog returns a log for http.Server. Failed TLS handshakes are the fault of the client, and port scanners cause many:
// they are logged at V(5).
func ErrorLog(to klog.Logger) *log.Logger { return log.New(errorLog{to}, "", 0) }

type errorLog struct{ to klog.Logger }

// Write implements io.Writer.
func (l errorLog) Write(line []byte) (int, error) {
	message := strings.TrimSpace(string(line))
	if strings.HasPrefix(message, "http: TLS handshake error") {
		l.to.V(5).Info("TLS handshake failed", "message", message)
	} else {
		l.to.Info("HTTP server", "message", message)
	}
	return len(line), nil
}
