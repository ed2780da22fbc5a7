package serving

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// AuthenticationOptions says how the caller of a request is authenticated.
type AuthenticationOptions struct {
	// Kubeconfig reaches the API server that reviews bearer tokens and holds the cluster's
	// authentication settings. Empty means the service account of the pod, if there is one.
	Kubeconfig string
	// SkipLookup leaves settings that are not given as flags unset instead of reading them from the cluster.
	SkipLookup bool
	// TolerateLookupFailure starts the daemon although the cluster's settings could not be read.
	TolerateLookupFailure bool
	// TokenCacheTTL is how long the answer to a token review is remembered; 0 turns the cache off.
	TokenCacheTTL time.Duration
	// ClientCAFile holds the authorities whose client certificates are accepted as users.
	ClientCAFile string
	// RequestHeader accepts users named in headers by a trusted proxy.
	RequestHeader RequestHeaderOptions
}

// RequestHeaderOptions says which proxies may name a user in request headers, and in which.
type RequestHeaderOptions struct {
	// ClientCAFile holds the authorities of the proxies' client certificates.
	ClientCAFile string
	// AllowedNames are the common names a proxy certificate may have; empty allows all.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders are looked up in order.
	UsernameHeaders, UIDHeaders, GroupHeaders []string
	// ExtraHeaderPrefixes start the headers that carry extra user attributes.
	ExtraHeaderPrefixes []string
}

// NewAuthenticationOptions returns the defaults. UID headers have none: servers
// older than 1.32 do not strip them from what their clients send.
func NewAuthenticationOptions() AuthenticationOptions {
	return AuthenticationOptions{
		TokenCacheTTL: 10 * time.Second,
		RequestHeader: RequestHeaderOptions{
			UsernameHeaders:     []string{"x-remote-user"},
			GroupHeaders:        []string{"x-remote-group"},
			ExtraHeaderPrefixes: []string{"x-remote-extra-"},
		},
	}
}

// AddFlags registers the flags of the section "Authentication".
func (o *AuthenticationOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "authentication-kubeconfig", o.Kubeconfig,
		"Kubeconfig file of the API server that may create tokenreviews.authentication.k8s.io. Optional: without it "+
			"bearer tokens are not accepted and no client CA is looked up in the cluster.")
	fs.BoolVar(&o.SkipLookup, "authentication-skip-lookup", o.SkipLookup,
		"Do not read missing authentication settings from the cluster.")
	fs.BoolVar(&o.TolerateLookupFailure, "authentication-tolerate-lookup-failure", o.TolerateLookupFailure,
		"Start although missing authentication settings could not be read from the cluster; until they can, all requests may count as anonymous.")
	fs.DurationVar(&o.TokenCacheTTL, "authentication-token-webhook-cache-ttl", o.TokenCacheTTL,
		"How long answers to token reviews are cached.")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile,
		"PEM file of certificate authorities. A request with a client certificate signed by one of them is made by the user its common name says. "+
			"The file is read again when it changes.")

	h := &o.RequestHeader
	fs.StringVar(&h.ClientCAFile, "requestheader-client-ca-file", h.ClientCAFile,
		"PEM file of the certificate authorities of proxies that may name the user in the headers given by --requestheader-username-headers. "+
			"Do not assume that such a proxy has authorized the request.")
	fs.StringSliceVar(&h.AllowedNames, "requestheader-allowed-names", h.AllowedNames,
		"Common names of the proxy certificates that may name users. Empty allows any certificate signed by --requestheader-client-ca-file.")
	fs.StringSliceVar(&h.UsernameHeaders, "requestheader-username-headers", h.UsernameHeaders,
		"Headers to look up for the user name; X-Remote-User is usual.")
	fs.StringSliceVar(&h.UIDHeaders, "requestheader-uid-headers", h.UIDHeaders,
		"Headers to look up for the user's UID; X-Remote-Uid is suggested.")
	fs.StringSliceVar(&h.GroupHeaders, "requestheader-group-headers", h.GroupHeaders,
		"Headers to look up for groups; X-Remote-Group is suggested.")
	fs.StringSliceVar(&h.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", h.ExtraHeaderPrefixes,
		"Prefixes of headers that carry extra user attributes; X-Remote-Extra- is suggested.")
}

// Validate reports every problem, each with flag, value and what would be right.
func (o *AuthenticationOptions) Validate() []error {
	var errs []error
	if o.TokenCacheTTL < 0 {
		errs = append(errs, fmt.Errorf("--authentication-token-webhook-cache-ttl must be at least 0, where 0 turns the cache off, got %s", o.TokenCacheTTL))
	}
	h := &o.RequestHeader
	for _, f := range []struct {
		flag   string
		values []string
	}{
		{"requestheader-allowed-names", h.AllowedNames},
		{"requestheader-username-headers", h.UsernameHeaders},
		{"requestheader-uid-headers", h.UIDHeaders},
		{"requestheader-group-headers", h.GroupHeaders},
		{"requestheader-extra-headers-prefix", h.ExtraHeaderPrefixes},
	} {
		if slices.ContainsFunc(f.values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			errs = append(errs, fmt.Errorf("--%s must not contain an empty value, got %q", f.flag, f.values))
		}
	}
	// The API server strips only this header from its own clients' requests, so any other one could be forged through it.
	if len(h.UIDHeaders) > 0 && !containsFold(h.UIDHeaders, "X-Remote-Uid") {
		errs = append(errs, fmt.Errorf("--requestheader-uid-headers must include X-Remote-Uid, got %q", h.UIDHeaders))
	}
	return errs
}

// Warnings names settings that are allowed but keep requests of the API aggregator from being understood.
func (o *AuthenticationOptions) Warnings() []string {
	var warnings []string
	h := &o.RequestHeader
	for _, f := range []struct {
		flag, standard string
		values         []string
	}{
		{"requestheader-username-headers", "X-Remote-User", h.UsernameHeaders},
		{"requestheader-group-headers", "X-Remote-Group", h.GroupHeaders},
		{"requestheader-extra-headers-prefix", "X-Remote-Extra-", h.ExtraHeaderPrefixes},
	} {
		if len(f.values) > 0 && !containsFold(f.values, f.standard) {
			warnings = append(warnings, fmt.Sprintf("--%s lacks the standard %s, so requests of the API aggregator will not be understood; got %q", f.flag, f.standard, f.values))
		}
	}
	return warnings
}

func containsFold(values []string, want string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return strings.EqualFold(v, want) })
}
