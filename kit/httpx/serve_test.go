package httpx

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/klog/v2/ktesting"
)

func TestAPanicIsAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		handler  http.HandlerFunc
		panicked bool
		status   int
	}{
		"no panic":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, false, http.StatusTeapot},
		"before the answer": {func(http.ResponseWriter, *http.Request) { panic("boom") }, true, http.StatusInternalServerError},
		"after the answer":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot); panic("boom") }, true, http.StatusTeapot},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			w := &StatusWriter{ResponseWriter: recorder}
			err := Serve(tc.handler, w, httptest.NewRequest(http.MethodGet, "/", nil))
			if (err != nil) != tc.panicked || recorder.Code != tc.status || w.Status != tc.status {
				t.Errorf("panic %v, status %d, noted as %d", err, recorder.Code, w.Status)
			}
			if err != nil && !strings.Contains(string(err.Stack), "TestAPanicIsAnswered") {
				t.Errorf("the stack does not lead to the handler:\n%s", err.Stack)
			}
		})
	}
}

func TestAHandlerMayCutTheConnection(t *testing.T) {
	recorder := httptest.NewRecorder()
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || recorder.Body.Len() != 0 {
			t.Errorf("recovered %v, answered %q", v, recorder.Body)
		}
	}()
	abort := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_ = Serve(abort, &StatusWriter{ResponseWriter: recorder}, httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestFailedHandshakesAreNotWorthALine(t *testing.T) {
	var buffer ktesting.BufferTL
	logger := ktesting.NewLogger(&buffer, ktesting.NewConfig(ktesting.Verbosity(4)))
	to := ErrorLog(logger)
	to.Print("http: TLS handshake error from 1.2.3.4:5: EOF")
	to.Print("http: Accept error: too many open files")
	lines := strings.Split(strings.TrimSpace(buffer.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], "too many open files") {
		t.Errorf("logged %q", lines)
	}
}
