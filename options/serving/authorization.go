package serving

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// AuthorizationOptions says how requests are authorized.
type AuthorizationOptions struct {
	// Kubeconfig reaches the API server that answers subject access reviews. Empty means the
	// service account of the pod, if there is one.
	Kubeconfig string
	// AlwaysAllowPaths are served to anyone. A trailing * matches any rest; the leading slash may be left out.
	AlwaysAllowPaths []string
	// AllowedTTL and DeniedTTL are how long a review is remembered, by its outcome; 0 turns the cache off.
	AllowedTTL, DeniedTTL time.Duration
}

// NewAuthorizationOptions returns the defaults: probes are open to everyone, all other requests are authorized.
func NewAuthorizationOptions() AuthorizationOptions {
	return AuthorizationOptions{
		AlwaysAllowPaths: []string{"/healthz", "/readyz", "/livez"},
		AllowedTTL:       10 * time.Second,
		DeniedTTL:        10 * time.Second,
	}
}

// AddFlags registers the flags of the section "Authorization".
func (o *AuthorizationOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "authorization-kubeconfig", o.Kubeconfig,
		"Kubeconfig file of the API server that may create subjectaccessreviews.authorization.k8s.io. Optional: without it "+
			"every request is forbidden that is not for one of --authorization-always-allow-paths or by a member of system:masters.")
	fs.StringSliceVar(&o.AlwaysAllowPaths, "authorization-always-allow-paths", o.AlwaysAllowPaths,
		"HTTP paths served without asking the API server whether the caller may have them. A trailing * matches any rest.")
	fs.DurationVar(&o.AllowedTTL, "authorization-webhook-cache-authorized-ttl", o.AllowedTTL,
		"How long a subject access review that allowed a request is cached.")
	fs.DurationVar(&o.DeniedTTL, "authorization-webhook-cache-unauthorized-ttl", o.DeniedTTL,
		"How long a subject access review that did not allow a request is cached.")
}

// Validate reports every problem, each with flag, value and what would be right.
func (o *AuthorizationOptions) Validate() []error {
	var errs []error
	for _, path := range o.AlwaysAllowPaths {
		if i := strings.IndexByte(path, '*'); i >= 0 && i < len(path)-1 {
			errs = append(errs, fmt.Errorf("--authorization-always-allow-paths may have a * only at the end of a path, got %q", path))
		}
	}
	if o.AllowedTTL < 0 {
		errs = append(errs, fmt.Errorf("--authorization-webhook-cache-authorized-ttl must be at least 0, where 0 turns the cache off, got %s", o.AllowedTTL))
	}
	if o.DeniedTTL < 0 {
		errs = append(errs, fmt.Errorf("--authorization-webhook-cache-unauthorized-ttl must be at least 0, where 0 turns the cache off, got %s", o.DeniedTTL))
	}
	return errs
}
