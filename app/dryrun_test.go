package app

import (
	"net/http"
	"strings"
	"testing"

	"orrery/options"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNothingOfADryRunIsStored(t *testing.T) {
	e := options.NewGeneric().LeaderElection
	e.ResourceName += dryRunSuffix
	var sent *http.Request
	guard := dryRunGuard(&e)(transportFunc(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: 200}, nil
	}))
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	for _, tc := range []struct{ method, path, agent, want string }{
		{"GET", "/api/v1/pods?watch=true", "", "as it is"},
		{"POST", "/api/v1/namespaces/default/pods", "", "dry"},
		{"PUT", "/api/v1/namespaces/default/pods/a?fieldManager=x", "", "dry"},
		{"PATCH", "/api/v1/namespaces/default/pods/a", "", "dry"},
		{"POST", "/api/v1/namespaces/default/pods/a/eviction", "", "dry"},
		{"PATCH", "/api/v1/namespaces/default/pods/a?dryRun=All", "", "as it is"},
		{"DELETE", "/api/v1/namespaces/default/pods/a?dryRun=All", "", "as it is"},
		{"DELETE", "/api/v1/namespaces/default/pods/a", "", "refused"},
		{"PUT", leases + "/kube-controller-manager-dry-run", "", "as it is"},
		{"PUT", leases + "/kube-controller-manager", "", "dry"},
		{"PATCH", leases + "/kube-controller-manager-dry-run", "", "dry"},
		{"POST", leases, "orrery/v1 leader-election", "as it is"},
		{"POST", leases, "orrery/v1 node-controller", "dry"},
		{"POST", "/api/v1/namespaces/kube-system/serviceaccounts/a/token", "", "as it is"},
		{"POST", "/api/v1/namespaces/kube-system/serviceaccounts", "", "dry"},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "", "as it is"},
	} {
		sent = nil
		r, err := http.NewRequest(tc.method, "https://server"+tc.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", tc.agent)
		_, err = guard.RoundTrip(r)
		got := "refused"
		switch {
		case err == nil && sent == r:
			got = "as it is"
		case err == nil && sent.URL.Query().Get("dryRun") == "All":
			got = "dry"
		}
		if got != tc.want || r.URL.RawQuery != "" && sent != nil && !strings.Contains(sent.URL.RawQuery, r.URL.RawQuery) && tc.want == "as it is" {
			t.Errorf("%s %s: sent %s, want %s", tc.method, tc.path, got, tc.want)
		}
	}
}
