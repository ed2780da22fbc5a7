package daemonset

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery/kit/kittest"
)

func TestPodsThatAWebhookTakesAwayAreMadeAnewAtAMeasuredPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, append(newNodes(5), newSet("web"))...)
		made := newTally()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" {
				made.add("pods")
				r.Object.SetLabels(map[string]string{"app": "other"})
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
		api.Run(t, Descriptor())
		time.Sleep(10 * time.Second)
		// Twice the number of nodes plus 30 at once, and then 20 a second.
		if n := made.of("pods"); n < 150 || n > 250 {
			t.Errorf("%d pods were made in 10 s", n)
		}
		api.Unreact()
		api.Pass(2 * time.Second)
		if n := get(t, api, "web").Status.CurrentNumberScheduled; n != 5 {
			t.Errorf("%d of 5 nodes have a pod", n)
		}
	})
}

func TestNodesThatComeGetTheirPodsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web"))
		for _, node := range newNodes(200) {
			api.Create(t, node)
			api.Settle()
		}
		if n := len(pods(t, api)); n != 200 {
			t.Errorf("%d pods on 200 nodes", n)
		}
	})
}
