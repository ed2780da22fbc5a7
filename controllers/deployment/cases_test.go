package deployment

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
	"orrery/kit/kittest"
)

// Bugs that have occurred in practice, by their number in the Kubernetes issue tracker.

// kubernetes/kubernetes#102551
func TestScalingToTheSizeOfTheOnlyActiveSetDoesNotEndARollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 5, slack("0", "1")))
		k := api.Run(t, (&keeper{}).init)
		c := api.Run(t, Descriptor())
		api.Settle()
		c.Stop()
		k.Stop()
		// The rollout has just begun: the old ReplicaSet has given up one pod, the new one has none yet.
		old := only(t, api, "img:1")
		*old.Spec.Replicas, old.Status.Replicas, old.Status.AvailableReplicas = 4, 4, 4
		api.Update(t, old)
		d := read(t, api, "web")
		image("img:2")(d)
		replicas(4)(d)
		api.Update(t, d)
		api.Run(t, (&keeper{}).init)
		api.Run(t, Descriptor())
		api.Settle()
		if got := sizes(t, api); got != "img:1=0 img:2=4" {
			t.Errorf("sets %s", got)
		}
	})
}

// kubernetes/kubernetes#20273 and #28145
func TestAStuckRolloutScalesInProportionAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 10, slack("3", "2")))
		change(t, api, "web", image("img:2"), bad)
		if got := sizes(t, api); got != "img:1=8 img:2=5" {
			t.Fatalf("the stuck rollout: %s", got)
		}
		change(t, api, "web", replicas(20))
		if got := sizes(t, api); got != "img:1=14 img:2=9" {
			t.Errorf("scaled to 20: %s", got)
		}
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.Paused = true }, replicas(10))
		if got := sizes(t, api); got != "img:1=8 img:2=5" {
			t.Errorf("paused and scaled back: %s", got)
		}
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		if got := sizes(t, api); got != "img:1=8 img:2=5" {
			t.Errorf("resumed: %s", got)
		}
	})
}

// kubernetes/kubernetes#98656
func TestARolloutThatAQuotaBlocksWaitsQuietlyAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{quota: new(int32(2))}
		api := kittest.New(t, newDeployment("web", 2, slack("0", "1")))
		api.Run(t, k.init)
		api.Run(t, Descriptor())
		api.Settle()
		*k.quota = 1 // an old pod that stops slowly holds its share
		change(t, api, "web", image("img:2"))
		if got := sizes(t, api); got != "img:1=1 img:2=1" {
			t.Fatalf("the blocked rollout: %s", got)
		}
		if c := findCondition(read(t, api, "web").Status.Conditions, appsv1.DeploymentReplicaFailure); c == nil || c.Reason != "FailedCreate" {
			t.Errorf("failure %+v", c)
		}
		written(api)
		time.Sleep(9 * time.Minute)
		if got := written(api); len(got) > 0 {
			t.Errorf("wrote %q while nothing changed", got)
		}
		*k.quota = 2
		two := only(t, api, "img:2") // the ReplicaSet controller tries again
		two.Annotations["again"] = ""
		api.Update(t, two)
		api.Settle()
		d := read(t, api, "web")
		if got := sizes(t, api); got != "img:1=0 img:2=2" || findCondition(d.Status.Conditions, appsv1.DeploymentReplicaFailure) != nil {
			t.Errorf("sets %s, conditions %+v", got, d.Status.Conditions)
		}
	})
}

// kubernetes/kubernetes#49637
func TestTheDeadlineOfANewRolloutStartsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(10)) }))
		time.Sleep(time.Hour)
		d := read(t, api, "web")
		image("img:2")(d)
		bad(d)
		began := time.Now()
		api.Update(t, d)
		for time.Since(began) < 9500*time.Millisecond {
			time.Sleep(250 * time.Millisecond)
			if got := progress(t, api, "web"); strings.HasPrefix(got, "False") {
				t.Fatalf("%s %v after the change", got, time.Since(began))
			}
		}
		time.Sleep(3 * time.Second)
		if got := progress(t, api, "web"); got != "False ProgressDeadlineExceeded" {
			t.Errorf("%s %v after the change", got, time.Since(began))
		}
		written(api)
		time.Sleep(time.Hour)
		if got := written(api); len(got) > 0 {
			t.Errorf("wrote %q after the deadline", got)
		}
	})
}

// kubernetes/kubernetes#132560
func TestLongNames(t *testing.T) {
	for _, n := range []int{245, 253} {
		synctest.Test(t, func(t *testing.T) {
			name := strings.Repeat("x", n)
			api := start(t, newDeployment(name, 1))
			change(t, api, name, image("img:2"))
			if got := sizes(t, api); got != "img:1=0 img:2=1" {
				t.Errorf("sets %s", got)
			}
			for _, rs := range kittest.List[appsv1.ReplicaSet](t, api, "default") {
				if len(rs.Name) > 253 || !strings.HasSuffix(rs.Name, "-"+rs.Labels[hashLabel]) {
					t.Errorf("name %s (%d)", rs.Name, len(rs.Name))
				}
			}
		})
	}
}

// kubernetes/kubernetes#29735 and #43948
func TestATakenNameIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := func(hash string) *appsv1.ReplicaSet {
			return &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + hash},
				Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), Template: corev1.PodTemplateSpec{
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "z", Image: "other"}}},
				}},
			}
		}
		d := newDeployment("web", 2)
		api := start(t, d, taken(podctl.TemplateHash(&d.Spec.Template, nil)), taken(podctl.TemplateHash(&d.Spec.Template, new(int32(1)))))
		got := read(t, api, "web")
		if n := got.Status.CollisionCount; n == nil || *n != 2 {
			t.Errorf("collisions %v, want 2", n)
		}
		if rs := only(t, api, "img:1"); rs.Name != "web-"+podctl.TemplateHash(&d.Spec.Template, new(int32(2))) || got.Status.AvailableReplicas != 2 {
			t.Errorf("made %s, status %+v", rs.Name, got.Status)
		}
		change(t, api, "web", image("img:2"))
		if n := read(t, api, "web").Status.CollisionCount; *n != 2 || sizes(t, api) != "img:1=0 img:2=2 other=0 other=0" {
			t.Errorf("collisions %d, sets %s", *n, sizes(t, api))
		}
	})
}

func TestTheStatusIsKeptWhereOldSetsCannotBeScaled(t *testing.T) {
	for name, opts := range map[string][]deploymentOption{
		"rolling": {slack("2", "0")}, "recreated": {recreated},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, newDeployment("web", 2, append(opts, impatient)...))
				old := only(t, api, "img:1").Name
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Verb == "update" && r.Resource.Resource == "replicasets" && r.Subresource == "" && r.Name == old {
						return kittest.Refuse(http.StatusForbidden, "denied by policy")
					}
					return nil
				})
				change(t, api, "web", image("img:2"))
				api.Pass(10 * time.Second)
				d := read(t, api, "web")
				if d.Status.ObservedGeneration != d.Generation {
					t.Errorf("generation %d is not observed: %+v", d.Generation, d.Status)
				}
				if name == "rolling" && (d.Status.UpdatedReplicas != 2 || d.Status.Replicas != 4) {
					t.Errorf("the status tells of %d pods, %d of them updated", d.Status.Replicas, d.Status.UpdatedReplicas)
				}
				api.Pass(2 * time.Minute)
				// A Recreate that cannot begin makes no progress.
				if got := progress(t, api, "web"); name == "rolling" && got != "False ProgressDeadlineExceeded" {
					t.Errorf("progress %s", got)
				}
				api.Unreact()
				api.Pass(2 * time.Minute)
				if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
					t.Errorf("progress %s, sets %s", got, sizes(t, api))
				}
			})
		})
	}
}

func TestTheStatusIsKeptWhereAPolicyForbidsTheRest(t *testing.T) {
	for verb, name := range map[string]string{"delete": "img:1", "update": "img:2", "create": ""} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDeployment("web", 2)
				d.Spec.RevisionHistoryLimit = new(int32(1))
				api := kittest.New(t, d)
				pods := api.Run(t, (&keeper{}).init)
				api.Run(t, Descriptor())
				api.Settle()
				change(t, api, "web", image("img:2"))
				pods.Stop()
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Verb == verb && r.Resource.Resource == "replicasets" && r.Subresource == "" && (name == "" || r.Name == only(t, api, name).Name) {
						return kittest.Refuse(http.StatusForbidden, "denied by policy")
					}
					return nil
				})
				change(t, api, "web", func(d *appsv1.Deployment) {
					d.Spec.RevisionHistoryLimit, d.Annotations["note"] = new(int32), "new"
					if verb == "create" {
						image("img:3")(d)
					}
				})
				rs := only(t, api, "img:2")
				rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = 1, 1 // a pod has died
				api.Update(t, rs)
				api.Pass(10 * time.Second)
				d = read(t, api, "web")
				if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != 1 {
					t.Errorf("generation %d, status %+v", d.Generation, d.Status)
				}
			})
		})
	}
}
