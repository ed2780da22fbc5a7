package deployment

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery/kit/kittest"
)

// rewrites changes the template of each ReplicaSet on creation, as a webhook does.
func rewrites(t *testing.T, api *kittest.API) {
	t.Helper()
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == "create" && r.Resource.Resource == "replicasets" {
			if err := unstructured.SetNestedField(r.Object.Object, "other", "spec", "template", "spec", "hostname"); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
}

func TestSetsThatComeOutOtherwiseAreNotMadeWithoutAnEnd(t *testing.T) {
	for name, opts := range map[string][]deploymentOption{"rolling": nil, "recreated": {recreated}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, newDeployment("web", 3, opts...))
				rewrites(t, api)
				api.Run(t, (&keeper{}).init)
				api.Run(t, Descriptor())
				time.Sleep(10 * time.Minute)
				sets := kittest.List[appsv1.ReplicaSet](t, api, "default")
				// Ten until the backoff has grown to a minute, and then one a minute.
				if n := len(sets); n < 10 || n > 22 {
					t.Errorf("%d ReplicaSets in ten minutes", n)
				}
				if got := read(t, api, "web").Status.Replicas; got != sum(sets, size) {
					t.Errorf("the status tells of %d pods, there are %d", got, sum(sets, size))
				}
				// Once new ReplicaSets are no longer changed, the rollout ends.
				api.Unreact()
				api.Pass(time.Minute + 10*time.Second)
				if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
					t.Errorf("progress %s, sets %s", got, sizes(t, api))
				}
			})
		})
	}
}

func TestANewTemplateWaitsForNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 3))
		rewrites(t, api)
		api.Run(t, (&keeper{}).init)
		api.Run(t, Descriptor())
		time.Sleep(5 * time.Minute)
		api.Unreact()
		change(t, api, "web", image("img:2"))
		if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
			t.Errorf("progress %s, sets %s", got, sizes(t, api))
		}
	})
}
