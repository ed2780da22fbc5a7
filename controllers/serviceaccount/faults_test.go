package serviceaccount

import (
	"testing"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, each namespace has its account.
func TestFaultsAtEachWrite(t *testing.T) {
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{Descriptor()},
		Given: func(t *testing.T, api *kittest.API) {
			api.Create(t, namespace("shop"))
			api.Create(t, namespace("yard"))
		},
		Change: func(t *testing.T, api *kittest.API) {
			api.Remove(t, account("shop", "default"))
			api.Create(t, namespace("new"))
		},
	})
}
