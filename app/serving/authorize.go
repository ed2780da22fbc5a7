package serving

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
)

// openPaths are the paths anyone may have, without their leading slash.
type openPaths struct {
	exact    []string
	prefixes []string
}

func newOpenPaths(paths []string) openPaths {
	var open openPaths
	for _, path := range paths {
		path = strings.TrimPrefix(path, "/")
		if prefix, ok := strings.CutSuffix(path, "*"); ok {
			open.prefixes = append(open.prefixes, prefix)
		} else {
			open.exact = append(open.exact, path)
		}
	}
	return open
}

func (o openPaths) has(path string) bool {
	path = strings.TrimPrefix(path, "/")
	return slices.Contains(o.exact, path) ||
		slices.ContainsFunc(o.prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// withAuthorization passes on requests their user may make. reviews may be nil, and then only what is open is served.
func withAuthorization(open openPaths, reviews *accessReviewer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who, ok := request.UserFrom(req.Context())
		if !ok {
			answerInternalError(w, req, errors.New("no user in the request"))
			return
		}
		verb := strings.ToLower(req.Method)
		// The API server lets this group do anything, so it need not be asked; and its members get
		// in when it is down, which is when they need to.
		if slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) || open.has(req.URL.Path) {
			next.ServeHTTP(w, req)
			return
		}
		var allowed bool
		var reason string
		if reviews != nil {
			var err error
			if allowed, reason, err = reviews.review(req.Context(), who, verb, req.URL.Path); err != nil {
				answerInternalError(w, req, err)
				return
			}
		}
		if !allowed {
			klog.V(4).InfoS("Request forbidden", "user", who.GetName(), "verb", verb, "path", req.URL.Path, "reason", reason)
			answerForbidden(w, req, forbiddenMessage(who, verb, req.URL.Path, reason))
			return
		}
		next.ServeHTTP(w, req)
	})
}

func forbiddenMessage(who user.Info, verb, path, reason string) string {
	message := htmlSafe.Replace(fmt.Sprintf("User %q cannot %s path %q", who.GetName(), verb, path))
	if reason != "" {
		message += ": " + reason
	}
	return message
}
