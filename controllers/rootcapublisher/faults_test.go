package rootcapublisher

import (
	"testing"

	"orrery/kit"
	"orrery/kit/kittest"
	"orrery/options"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, each namespace has the bundle.
func TestFaultsAtEachWrite(t *testing.T) {
	start := func(cc kit.ControllerContext) (bool, error) {
		cc.RootCA = []byte("CA")
		return Descriptor(&options.Shared{}).Init(cc)
	}
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{start},
		Given: func(t *testing.T, api *kittest.API) {
			api.Create(t, namespace("shop"))
			api.Create(t, configMap("shop", "other"))
			api.Create(t, namespace("yard"))
		},
		Change: func(t *testing.T, api *kittest.API) {
			api.Update(t, configMap("shop", "broken"))
			api.Remove(t, configMap("yard", ""))
		},
	})
}
