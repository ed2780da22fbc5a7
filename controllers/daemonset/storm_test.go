package daemonset

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// TestPodsThatAWebhookUnpinsAreNotMadeForEver: a webhook that sets an affinity of its own makes pods that are nobody's, and
// that wait for a scheduler which may have no node for them (k/k#14550).
func TestPodsThatAWebhookUnpinsAreNotMadeForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, append(newNodes(5), newSet("web"))...)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" {
				unstructured.RemoveNestedField(r.Object.Object, "spec", "affinity")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(time.Minute)
		if n := len(pods(t, api)); n < 35 || n > 40 {
			t.Errorf("%d pods wait, want one for each of 5 nodes, and 30", n)
		}
		api.Unreact()
		for _, pod := range pods(t, api) {
			api.Remove(t, pod)
			api.Settle()
		}
		if n := get(t, api, "web").Status.CurrentNumberScheduled; n != 5 {
			t.Errorf("%d of 5 nodes have a pod once the others are gone", n)
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
