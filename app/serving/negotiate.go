package serving

import (
	"net/http"
	"strconv"
	"strings"

	"orrery/kit/httpx"
)

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
func negotiateZpage(header, kind string) (zpageForm, bool) {
	if strings.TrimSpace(header) == "" {
		return zpageForm{mediaType: "text/plain"}, true
	}
	for _, c := range httpx.ParseAccept(header) {
		as, group, version := c.Params["as"], c.Params["g"], c.Params["v"]
		if as == "" && group == "" && version == "" {
			if c.MediaType == "text/plain" || c.MediaType == "text/*" || c.MediaType == "*/*" {
				return zpageForm{mediaType: "text/plain"}, true
			}
			continue
		}
		// Parameter values keep their case, and so does a kind.
		if as != kind || group != zpageGroup || version != "v1beta1" && version != "v1alpha1" {
			continue
		}
		switch c.MediaType {
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
