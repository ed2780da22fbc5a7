package httpx

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestParseAccept(t *testing.T) {
	for header, want := range map[string][]string{
		"":                              nil,
		"text/html":                     {"text/html"},
		"text/plain;q=0.5, text/html":   {"text/html", "text/plain"},
		"a/b, c/d":                      {"a/b", "c/d"},
		"a/b;q=x, ;;, c/d;q=0.9, *;q=1": {"a/b", "*", "c/d"},
	} {
		var got []string
		for _, c := range ParseAccept(header) {
			got = append(got, c.MediaType)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
	if c := ParseAccept("application/json;v=v2;q=0.25")[0]; c.Params["v"] != "v2" || c.Quality != 0.25 {
		t.Errorf("parameters: %+v", c)
	}
}

func TestStatusWriter(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   int
	}{
		"nothing":      {func(http.ResponseWriter) {}, 0},
		"a body":       {func(w http.ResponseWriter) { _, _ = w.Write(nil) }, http.StatusOK},
		"a status":     {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }, http.StatusTeapot},
		"the first":    {func(w http.ResponseWriter) { _, _ = w.Write(nil); w.WriteHeader(http.StatusTeapot) }, http.StatusOK},
		"what flushes": {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 0},
	} {
		under := httptest.NewRecorder()
		w := &StatusWriter{ResponseWriter: under}
		if tc.answer(w); w.Status != tc.want {
			t.Errorf("%s: %d, want %d", name, w.Status, tc.want)
		}
		if name == "what flushes" && !under.Flushed {
			t.Error("the writer underneath was not flushed")
		}
	}
}
