package serving

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// acceptClause is one alternative of an Accept header.
type acceptClause struct {
	mediaType string
	params    map[string]string
	quality   float64
}

// parseAccept returns the alternatives, preferred ones first. What cannot be parsed is left out.
func parseAccept(header string) []acceptClause {
	var clauses []acceptClause
	for part := range strings.SplitSeq(header, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality, err := strconv.ParseFloat(params["q"], 64)
		if err != nil {
			quality = 1
		}
		clauses = append(clauses, acceptClause{mediaType, params, quality})
	}
	slices.SortStableFunc(clauses, func(a, b acceptClause) int { return cmp.Compare(b.quality, a.quality) })
	return clauses
}

// zpageGroup is the API group of the structured forms of /flagz and /statusz, with its versions.
const zpageGroup = "config.k8s.io"

const zpageMediaTypes = "application/json, application/yaml, text/plain"

// zpageForm is a form in which /flagz or /statusz can be had.
type zpageForm struct {
	mediaType string // one of zpageMediaTypes
	version   string // v1beta1 or v1alpha1; empty for text
}

// negotiateZpage picks the form. Text is what all get who do not ask otherwise. The
// structured forms must be asked for by kind and version, as in
// "application/json;as=Flagz;v=v1beta1;g=config.k8s.io", since they change by version.
func negotiateZpage(accept, kind string) (zpageForm, bool) {
	if strings.TrimSpace(accept) == "" {
		return zpageForm{mediaType: "text/plain"}, true
	}
	for _, c := range parseAccept(accept) {
		as, group, version := c.params["as"], c.params["g"], c.params["v"]
		if as == "" && group == "" && version == "" {
			if c.mediaType == "text/plain" || c.mediaType == "text/*" || c.mediaType == "*/*" {
				return zpageForm{mediaType: "text/plain"}, true
			}
			continue
		}
		// Parameter values keep their case, and so does a kind.
		if as != kind || group != zpageGroup || version != "v1beta1" && version != "v1alpha1" {
			continue
		}
		switch c.mediaType {
		case "application/json", "application/*", "*/*":
			return zpageForm{"application/json", version}, true
		case "application/yaml":
			return zpageForm{"application/yaml", version}, true
		}
	}
	return zpageForm{}, false
}

// prettyIndent is the indentation for callers that look like a person's.
func prettyIndent(req *http.Request) string {
	if asked := req.URL.Query().Get("pretty"); asked != "" {
		if pretty, _ := strconv.ParseBool(asked); pretty {
			return "  "
		}
		return ""
	}
	for _, prefix := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(req.UserAgent(), prefix) {
			return "  "
		}
	}
	return ""
}
