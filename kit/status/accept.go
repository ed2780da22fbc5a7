package status

import (
	"net/http"

	"orrery/kit/httpx"
)

// form is how an answer is written.
type form int

const (
	asText form = iota
	asHTML
	asJSON
)

// formOf returns the form that a request asks for: by ?format=, or else by the media type that it likes best. Text is for
// all that do not ask, as curl.
func formOf(req *http.Request) form {
	switch req.URL.Query().Get("format") {
	case "json":
		return asJSON
	case "html":
		return asHTML
	case "":
	default:
		return asText
	}
	clauses := httpx.ParseAccept(req.Header.Get("Accept"))
	if len(clauses) == 0 {
		return asText
	}
	switch clauses[0].MediaType {
	case "text/html", "application/xhtml+xml":
		return asHTML
	case "application/json":
		return asJSON
	}
	return asText
}
