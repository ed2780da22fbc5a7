package serving

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/klog/v2"

	"orrery/options/serving"
)

// identities are the sources of authentication that are in use; nil means not.
type identities struct {
	clientCA *caBundle
	proxyCA  *caBundle
	headers  *proxyHeaders
	tokens   authenticator.Token
}

// bundles returns the certificate authorities in use.
func (i identities) bundles() []*caBundle {
	return slices.DeleteFunc([]*caBundle{i.clientCA, i.proxyCA}, func(b *caBundle) bool { return b == nil })
}

// authenticator tries the sources in turn. Each may have no opinion; one that rejects
// a credential fails the request only if no later one accepts another.
func (i identities) authenticator() authenticator.Request {
	var sources []authenticator.Request
	if i.proxyCA != nil {
		h := i.headers
		sources = append(sources, headerrequest.NewDynamicVerifyOptionsSecure(i.proxyCA.verifyOptions,
			h.provide(allowedNamesKey), h.provide(usernameHeadersKey), h.provide(uidHeadersKey), h.provide(groupHeadersKey), h.provide(extraPrefixesKey)))
	}
	if i.clientCA != nil {
		sources = append(sources, x509.NewDynamic(i.clientCA.verifyOptions, x509.CommonNameUserConversion))
	}
	if i.tokens != nil {
		sources = append(sources, bearertoken.New(i.tokens))
	}
	if len(sources) == 0 {
		return authenticator.RequestFunc(anonymous)
	}
	known := authenticated(union.New(sources...))
	return union.NewFailOnError(known, authenticator.RequestFunc(anonymous))
}

// cachedTokens puts the cache in front of token reviews.
func cachedTokens(reviews authenticationv1client.TokenReviewInterface, o serving.AuthenticationOptions) authenticator.Token {
	if reviews == nil {
		return nil
	}
	return tokencache.New(&tokenReviewer{reviews: reviews, backoff: reviewBackoff}, false, o.TokenCacheTTL, o.TokenCacheTTL)
}

// anonymous accepts everyone as nobody in particular.
func anonymous(*http.Request) (*authenticator.Response, bool, error) {
	return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}, true, nil
}

// authenticated adds the group of all who proved who they are, on which roles are granted.
func authenticated(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := next.AuthenticateRequest(req)
		if err != nil || !ok || isAnonymous(response.User) || slices.Contains(response.User.GetGroups(), user.AllAuthenticated) {
			return response, ok, err
		}
		who := response.User
		return &authenticator.Response{Audiences: response.Audiences, User: &user.DefaultInfo{
			Name: who.GetName(), UID: who.GetUID(), Extra: who.GetExtra(),
			Groups: append(slices.Clone(who.GetGroups()), user.AllAuthenticated),
		}}, true, nil
	})
}

func isAnonymous(who user.Info) bool {
	return who.GetName() == user.Anonymous || slices.Contains(who.GetGroups(), user.AllUnauthenticated)
}

// withAuthentication passes on requests with their user in the context, and answers 401 to credentials that do not hold.
func withAuthentication(auth authenticator.Request, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		response, ok, err := auth.AuthenticateRequest(req)
		if err != nil {
			klog.V(2).InfoS("Request not authenticated", "remote", req.RemoteAddr, "path", req.URL.Path, "err", err)
		}
		if err != nil || !ok {
			limitConnection(w, req)
			answerUnauthorized(w, req)
			return
		}
		if isAnonymous(response.User) {
			limitConnection(w, req)
		}
		removeCredentials(req.Header)
		next.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), response.User)))
	})
}

// limitConnection ends an HTTP/2 connection after this request. Its streams cost the
// server more than the client, and whoever has not said who he is may not keep one.
func limitConnection(w http.ResponseWriter, req *http.Request) {
	if req.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

// removeCredentials keeps tokens and forged identities from the handlers and their logs.
func removeCredentials(header http.Header) {
	header.Del("Authorization")
	headerrequest.ClearAuthenticationHeaders(header,
		headerrequest.StaticStringSlice{"X-Remote-User"},
		headerrequest.StaticStringSlice{"X-Remote-Uid"},
		headerrequest.StaticStringSlice{"X-Remote-Group"},
		headerrequest.StaticStringSlice{"X-Remote-Extra-"})
}
