package serviceaccounttoken

import (
	"testing"

	"orrery/kit"
	"orrery/kit/kittest"
	"orrery/options"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, tokens are filled in, and those of deleted accounts
// are deleted.
func TestFaultsAtEachWrite(t *testing.T) {
	key := signingKey(t)
	d := Descriptor(&options.Shared{ServiceAccountKeyFile: key, ServiceAccountTokenSyncs: 5})
	start := func(cc kit.ControllerContext) (bool, error) {
		cc.RootCA = []byte("CA")
		return d.Init(cc)
	}
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{start}, Ignore: []string{"Secret data.token"},
		Given: func(t *testing.T, api *kittest.API) {
			api.Create(t, account("till", "one", "listed"))
			api.Create(t, account("door"))
			api.Create(t, token("one", "till"))
			api.Create(t, token("of-door", "door"))
		},
		Change: func(t *testing.T, api *kittest.API) {
			api.Remove(t, account("door"))
			api.Create(t, token("two", "till"))
			api.Create(t, token("of-nobody", "nobody"))
		},
	})
}
