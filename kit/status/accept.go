package status

import (
	"net/http"

	"orrery/kit/httpx"
)

// form is the format of a response.
type form int

const (
	asText form = iota
	asHTML
	asJSON
)

// formOf returns the format that a request asks for, by ?format= or by its preferred media type. Clients that ask for none,
// such as curl, get text.
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
