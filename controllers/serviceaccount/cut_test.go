package serviceaccount

import (
	"testing"

	"orrery/kit/kittest"
)

// TestCutAnywhere: however the process is disturbed, at any of its writes, each namespace has its account.
func TestCutAnywhere(t *testing.T) {
	kittest.EveryCut(t, kittest.Play{
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
