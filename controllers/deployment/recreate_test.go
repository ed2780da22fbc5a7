package deployment

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// podOf returns a running pod of a ReplicaSet.
func podOf(rs *appsv1.ReplicaSet, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: rs.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestRecreateWaitsForTheLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 3, recreated))
		old := only(t, api, "img:1")
		a, b, done := podOf(old, "a"), podOf(old, "b"), podOf(old, "done")
		done.Status.Phase = corev1.PodSucceeded
		for _, p := range []*corev1.Pod{a, b, done} {
			api.Create(t, p)
		}
		api.Settle() // pods and Deployments are watched apart, and in no order to each other
		change(t, api, "web", image("img:2"))
		if got := sizes(t, api); got != "img:1=0" {
			t.Fatalf("with old pods: %s", got)
		}
		api.Delete(t, a) // terminating: the ReplicaSet counts it no more
		api.Remove(t, b)
		api.Settle()
		if got := sizes(t, api); got != "img:1=0" {
			t.Fatalf("with one terminating: %s", got)
		}
		api.Remove(t, a)
		api.Settle()
		if got := sizes(t, api); got != "img:1=0 img:2=3" {
			t.Errorf("with an ended one: %s", got)
		}
		if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
			t.Errorf("progress %s", got)
		}
	})
}

// TestRecreateWaitsForPodsThatNobodyHasSeen: a ReplicaSet whose controller has not observed that it was scaled to 0 may have
// created pods that the cache does not show yet.
func TestRecreateWaitsForPodsThatNobodyHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment("web", 3, recreated)
		api := kittest.New(t, d)
		keeper := api.Run(t, (&keeper{}).init)
		api.Run(t, Descriptor())
		api.Settle()
		keeper.Stop()
		old := only(t, api, "img:1")
		old.Status.Replicas, old.Status.ReadyReplicas, old.Status.AvailableReplicas = 0, 0, 0
		api.Update(t, old) // as before its pods were made
		change(t, api, "web", image("img:2"))
		api.Pass(time.Minute)
		if got := sizes(t, api); got != "img:1=0" {
			t.Errorf("before the old ReplicaSet was looked at: %s", got)
		}
		old = only(t, api, "img:1")
		old.Status.ObservedGeneration = old.Generation
		api.Update(t, old)
		api.Settle()
		if got := sizes(t, api); got != "img:1=0 img:2=3" {
			t.Errorf("after: %s", got)
		}
	})
}

func TestRecreateMakesTheSetAtItsFullSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 3, recreated))
		for _, w := range written(api) {
			if strings.HasPrefix(w, "update apps/v1/replicasets ") {
				t.Errorf("wrote %q", w)
			}
		}
		if got := sizes(t, api); got != "img:1=3" {
			t.Errorf("sets %s", got)
		}
	})
}

func TestRecreateGoesOnWhenTheLastPodEndsWithoutGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 1, recreated))
		p := podOf(only(t, api, "img:1"), "a")
		api.Create(t, p)
		api.Settle()
		change(t, api, "web", image("img:2"))
		if got := sizes(t, api); got != "img:1=0" {
			t.Fatalf("with an old pod: %s", got)
		}
		p.Status.Phase = corev1.PodFailed
		api.Update(t, p)
		api.Settle()
		if got := sizes(t, api); got != "img:1=0 img:2=1" {
			t.Errorf("sets %s", got)
		}
	})
}

func TestPodsOfOtherDeploymentsWakeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 1))
		p := podOf(only(t, api, "img:1"), "a")
		stray := podOf(only(t, api, "img:1"), "stray")
		stray.OwnerReferences = nil
		lost := podOf(only(t, api, "img:1"), "lost")
		lost.OwnerReferences[0].UID = "gone"
		for _, p := range []*corev1.Pod{p, stray, lost} {
			api.Create(t, p)
			api.Remove(t, p)
		}
		written(api)
		api.Settle()
		if got := written(api); len(got) > 0 {
			t.Errorf("wrote %q", got)
		}
	})
}

func TestSwitchingToRecreateWhileScaling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 4))
		change(t, api, "web", image("img:2"), bad)
		if got := sizes(t, api); got != "img:1=4 img:2=1" {
			t.Fatalf("the stuck rollout: %s", got)
		}
		change(t, api, "web", recreated, replicas(3))
		if got := sizes(t, api); got != "img:1=0 img:2=3" {
			t.Errorf("sets %s", got)
		}
	})
}

func rollBackTo(revision string) deploymentOption {
	return func(d *appsv1.Deployment) { d.Annotations[appsv1.DeprecatedRollbackTo] = revision }
}

func cause(text string) deploymentOption {
	return func(d *appsv1.Deployment) {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations["kubernetes.io/change-cause"] = text
	}
}

func TestRollbackByAnnotation(t *testing.T) {
	for _, c := range []struct {
		name, to, event, sets, cause string
	}{
		{"the revision before", "0", `Normal DeploymentRollback: Rolled back deployment "web" to revision 2`, "img:1=0 img:2=2 img:3=0", "second"},
		{"a named one", "1", `Normal DeploymentRollback: Rolled back deployment "web" to revision 1`, "img:1=2 img:2=0 img:3=0", "first"},
		{"the present one", "3", `Warning DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment "web"`,
			"img:1=0 img:2=0 img:3=2", "third"},
		{"one that is not there", "9", "Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.", "img:1=0 img:2=0 img:3=2", "third"},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := start(t, newDeployment("web", 2, cause("first")))
			change(t, api, "web", image("img:2"), cause("second"))
			change(t, api, "web", image("img:3"), cause("third"), func(d *appsv1.Deployment) { d.Annotations["since"] = "3" })
			seen := len(api.Events())
			change(t, api, "web", rollBackTo(c.to))
			if got := told(api, seen); len(got) == 0 || got[0] != c.event {
				t.Errorf("%s: events %q, want %q first", c.name, got, c.event)
			}
			d := read(t, api, "web")
			if _, ok := d.Annotations[appsv1.DeprecatedRollbackTo]; ok || d.Annotations["kubernetes.io/change-cause"] != c.cause {
				t.Errorf("%s: annotations %v", c.name, d.Annotations)
			}
			if _, kept := d.Annotations["since"]; kept != (c.cause == "third") {
				t.Errorf("%s: annotations %v", c.name, d.Annotations)
			}
			if got := sizes(t, api); got != c.sets {
				t.Errorf("%s: sets %s, want %s", c.name, got, c.sets)
			}
			if _, ok := d.Spec.Template.Labels[hashLabel]; ok {
				t.Errorf("%s: the hash label got into the template", c.name)
			}
		})
	}
}

func TestRollbackWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 2, cause("first"), rollBackTo("0")))
		api.Run(t, (&keeper{}).init)
		api.Run(t, Descriptor())
		api.Settle()
		var found bool
		for _, e := range told(api, 0) {
			found = found || e == "Warning DeploymentRollbackRevisionNotFound: Unable to find last revision."
		}
		d := read(t, api, "web")
		if !found || d.Annotations[appsv1.DeprecatedRollbackTo] != "" || d.Status.AvailableReplicas != 2 || d.Annotations[revisionAnnotation] != "1" {
			t.Errorf("events %q, annotations %v, status %+v", told(api, 0), d.Annotations, d.Status)
		}
	})
}

// In an old cluster the owner reference of a ReplicaSet may name an API group that no longer exists.
func TestASetThatNamesItsDeploymentInItsFormerGroupIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment("web", 2, recreated)
		d.UID = "web"
		ref := *metav1.NewControllerRef(d, ownerKind)
		ref.APIVersion = "extensions/v1beta1"
		old := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-old", Labels: d.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{ref}},
			Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: d.Spec.Selector, Template: d.Spec.Template},
		}
		api := start(t, d, old)
		change(t, api, "web", image("img:2"))
		api.Settle()
		if got := sizes(t, api); got != "img:1=0 img:2=2" {
			t.Errorf("sets %s", got)
		}
		if api.Get(t, d); d.Status.UpdatedReplicas != 2 || d.Status.AvailableReplicas != 2 {
			t.Errorf("status %+v", d.Status)
		}
	})
}
