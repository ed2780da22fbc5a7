package status

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
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
	best, found := -1.0, asText
	for part := range strings.SplitSeq(req.Header.Get("Accept"), ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality, err := strconv.ParseFloat(params["q"], 64)
		if err != nil {
			quality = 1
		}
		if quality <= best {
			continue
		}
		best = quality
		switch media {
		case "text/html", "application/xhtml+xml":
			found = asHTML
		case "application/json":
			found = asJSON
		default:
			found = asText
		}
	}
	return found
}
