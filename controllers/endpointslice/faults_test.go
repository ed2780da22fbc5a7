package endpointslice

import (
	"testing"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, slices list each existing pod once.
func TestFaultsAtEachWrite(t *testing.T) {
	given := func(t *testing.T, api *kittest.API) {
		api.Create(t, node("n1", "z1"))
		api.Create(t, service("web"))
		api.Create(t, service("api"))
		for _, ip := range []string{"10.1.0.1", "10.1.0.2"} {
			api.Create(t, pod("web", "p"+ip[7:], ip))
		}
	}
	for name, p := range map[string]kittest.FaultTest{
		"first": {},
		"pods come and go": {Change: func(t *testing.T, api *kittest.API) {
			api.Remove(t, pod("web", "p1", ""))
			api.Create(t, pod("web", "p3", "10.1.0.3"))
			api.Create(t, pod("api", "q", "10.1.0.4"))
		}},
		"another selector": {Change: func(t *testing.T, api *kittest.API) {
			s := service("web")
			api.Get(t, s)
			s.Spec.Selector = map[string]string{"app": "api"}
			api.Update(t, s)
		}},
	} {
		p.Run, p.Given = []any{Descriptor()}, given
		p.Ignore = []string{"EndpointSlice metadata.annotations"} // when the oldest change was that it follows, which a retry does not know
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
