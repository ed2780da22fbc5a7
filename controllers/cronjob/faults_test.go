package cronjob

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, each slot gets one Job, and the history stays within
// its limits.
func TestFaultsAtEachWrite(t *testing.T) {
	// Two slots a year, three minutes apart, and both soon.
	given := func(opts ...cronJobOption) func(*testing.T, *kittest.API) {
		return func(t *testing.T, api *kittest.API) {
			api.Create(t, newCronJob("c", "1,4 0 1 1 *", append(opts, history(1, 1))...))
		}
	}
	ends := func(t *testing.T, api *kittest.API) {
		for _, j := range kittest.List[batchv1.Job](t, api, "") {
			if !finished(j) {
				end(j, batchv1.JobComplete, time.Now())
				api.Update(t, j)
			}
		}
	}
	for name, p := range map[string]kittest.FaultTest{
		"jobs that end":      {Given: given(), World: ends},
		"jobs that go on":    {Given: given()},
		"one at a time":      {Given: given(policy(batchv1.ForbidConcurrent))},
		"one after another":  {Given: given(policy(batchv1.ReplaceConcurrent))},
		"one without a past": {Given: given(history(0, 0)), World: ends},
	} {
		p.Run, p.Rest = []any{Descriptor()}, 6*time.Minute
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
