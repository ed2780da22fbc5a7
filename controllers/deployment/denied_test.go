package deployment

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"orrery/kit/kittest"
)

// deny has the server refuse a verb for one ReplicaSet.
func deny(api *kittest.API, verb, name string) {
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == verb && r.Resource.Resource == "replicasets" && r.Subresource == "" && r.Name == name {
			return kittest.Refuse(http.StatusForbidden, "denied by a policy")
		}
		return nil
	})
}

// kubernetes/kubernetes#70864
func TestAReplicaSetThatCannotBeResizedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 4))
		api.Pass(time.Minute)
		change(t, api, "web", image("img:2"), bad)
		if got := sizes(t, api); got != "img:1=4 img:2=1" {
			t.Fatalf("sets %s", got)
		}
		deny(api, "update", only(t, api, "img:1").Name)
		change(t, api, "web", image("img:3"), recreated)
		api.Pass(time.Minute)
		if got := sizes(t, api); got != "img:1=4 img:2=0" {
			t.Errorf("sets %s", got)
		}
		api.Unreact()
		api.Pass(10 * time.Minute)
		if got := sizes(t, api); got != "img:1=0 img:2=0 img:3=4" {
			t.Errorf("sets %s after the policy was changed", got)
		}
	})
}

func TestAReplicaSetThatCannotBeDeletedKeepsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment("web", 1)
		d.Spec.RevisionHistoryLimit = new(int32(1))
		api := start(t, d)
		deny(api, "delete", only(t, api, "img:1").Name)
		for _, tag := range []string{"img:2", "img:3", "img:4"} {
			change(t, api, "web", image(tag))
			api.Pass(time.Minute)
		}
		if got := sizes(t, api); got != "img:1=0 img:3=0 img:4=1" {
			t.Errorf("sets %s", got)
		}
	})
}
