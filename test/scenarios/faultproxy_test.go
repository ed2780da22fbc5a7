package scenarios

import (
	"testing"

	"orrery/hack/localcluster/faultproxy"
)

// newFaults starts a proxy in front of the API server that ends with the test.
func newFaults(t *testing.T, e *env) *faultproxy.Proxy {
	t.Helper()
	p := must(faultproxy.New(e.Cluster))(t)
	t.Cleanup(p.Close)
	return p
}
