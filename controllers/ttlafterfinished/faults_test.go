package ttlafterfinished

import (
	"testing"
	"time"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, each Job is deleted once, and none before its TTL has
// expired.
func TestFaultsAtEachWrite(t *testing.T) {
	kittest.InjectFaults(t, kittest.FaultTest{
		Run: []any{Descriptor()},
		Given: func(t *testing.T, api *kittest.API) {
			now := time.Now()
			api.Create(t, job("over", 5, now.Add(-time.Hour)))
			api.Create(t, job("soon", 20, now))
			api.Create(t, job("later", 3600, now))
			api.Create(t, job("runs", 0, time.Time{}))
		},
	})
}
