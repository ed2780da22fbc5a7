package serviceaccount

import (
	"testing"

	"orrery/kit/kittest"
)

// TestCutAnywhere: whatever happens to the process at whichever write, each namespace has its account.
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
