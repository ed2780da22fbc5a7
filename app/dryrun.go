package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/options"
)

// dryRunSuffix turns the name of the normal lease into that of the lease for dry runs.
const dryRunSuffix = "-dry-run"

// dryTransport makes sure that nothing that a dry run sends is stored: it adds the dryRun parameter to every write, and
// refuses writes for which that is not enough. It lets two kinds of writes pass: those to the lease of the dry run, which
// are stored, and requests for tokens and reviews, which store nothing.
type dryTransport struct {
	next  http.RoundTripper
	lease string // path of the lease
}

// dryRun is what the daemon needs for a dry run. It is empty if this is none.
type dryRun struct {
	writes *kit.DryRun
	guard  func(http.RoundTripper) http.RoundTripper
}

// newDryRun prepares a dry run if the options ask for one: with a lease of its own, on a connection that stores nothing.
func newDryRun(ctx context.Context, s *options.CMServer, config *rest.Config) dryRun {
	if !s.DryRun {
		return dryRun{}
	}
	s.LeaderElection.ResourceName += dryRunSuffix
	d := dryRun{writes: kit.NewDryRun(), guard: dryRunGuard(&s.LeaderElection)}
	config.Wrap(d.guard)
	klog.FromContext(ctx).Info("Dry run: the API server validates what is written and stores none of it", "lease", s.LeaderElection.ResourceName)
	return d
}

// dryRunGuard returns the wrapper for the transports of a dry run, which lets this election write its lease.
func dryRunGuard(e *componentbaseconfig.LeaderElectionConfiguration) func(http.RoundTripper) http.RoundTripper {
	lease := "/apis/coordination.k8s.io/v1/namespaces/" + e.ResourceNamespace + "/leases/" + e.ResourceName
	return func(next http.RoundTripper) http.RoundTripper { return dryTransport{next, lease} }
}

// RoundTrip implements http.RoundTripper.
func (t dryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || t.passes(r) {
		return t.next.RoundTrip(r)
	}
	query := r.URL.Query()
	if slices.Contains(query["dryRun"], metav1.DryRunAll) {
		return t.next.RoundTrip(r)
	}
	if r.Method == http.MethodDelete {
		// The server reads the options of a delete from its body and ignores the query. Our own client sets dryRun in both, and
		// has passed above; any other client would really delete.
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: refused: this is a dry run, and the delete would be carried out", r.Method, r.URL.Path)
	}
	query.Set("dryRun", metav1.DryRunAll)
	c := r.Clone(r.Context())
	c.URL.RawQuery = query.Encode()
	return t.next.RoundTrip(c)
}

// passes reports whether a write may be sent as it is.
func (t dryTransport) passes(r *http.Request) bool {
	path := r.URL.Path
	switch r.Method {
	case http.MethodPut:
		return path == t.lease
	case http.MethodPost:
		collection := t.lease[:strings.LastIndexByte(t.lease, '/')]
		return path == collection && strings.Contains(r.UserAgent(), "leader-election") || strings.HasSuffix(path, "/token") && strings.Contains(path, "/serviceaccounts/") ||
			strings.HasPrefix(path, "/apis/authorization.k8s.io/") || strings.HasPrefix(path, "/apis/authentication.k8s.io/")
	}
	return false
}
