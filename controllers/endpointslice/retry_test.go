package endpointslice

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

// A write that a quota or a webhook rejects would be rejected again a moment later.
func TestARefusedWriteIsNotRepeatedManyTimesASecond(t *testing.T) {
	scenario(t, []client.Object{service("web")}, func(t *testing.T, api *kittest.API) {
		var tries atomic.Int64
		var granted atomic.Bool
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb != "update" || granted.Load() {
				return nil
			}
			tries.Add(1)
			return kittest.Refuse(http.StatusForbidden, "denied by policy")
		})
		api.Create(t, pod("web", "a", "10.1.0.1"))
		time.Sleep(10 * time.Second)
		if n := tries.Load(); n != 4 {
			t.Errorf("%d tries in ten seconds, want 4", n)
		}
		time.Sleep(time.Hour)
		if n := tries.Load(); n > 70 {
			t.Errorf("%d tries in an hour, want one a minute", n)
		}
		granted.Store(true)
		api.Create(t, pod("web", "b", "10.1.0.2"))
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a rs; IPv4 10.1.0.2 b rs") // a change does not wait for the next try
	})
}
