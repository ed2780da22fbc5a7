package deployment

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func TestARolloutFromTheFirstPodToTheSecondImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2, func(d *appsv1.Deployment) { d.Annotations = map[string]string{"team": "blue"} }))
		one := only(t, api, "img:1")
		hash := one.Labels[hashLabel]
		if one.Name != "web-"+hash || one.Spec.Selector.MatchLabels[hashLabel] != hash || one.Spec.Template.Labels[hashLabel] != hash {
			t.Errorf("the hash %s is not all over %+v", hash, one)
		}
		if a := one.Annotations; a["team"] != "blue" || a[revisionAnnotation] != "1" || a[desiredAnnotation] != "2" || a[maxAnnotation] != "3" {
			t.Errorf("annotations %v", a)
		}
		if !metav1.IsControlledBy(one, read(t, api, "web")) {
			t.Errorf("owners %v", one.OwnerReferences)
		}
		if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
			t.Errorf("progress %s", got)
		}
		if got := told(api, 0); !slices.Equal(got, []string{"Normal ScalingReplicaSet: Scaled up replica set " + one.Name + " from 0 to 2"}) {
			t.Errorf("events %q", got)
		}

		seen := len(api.Events())
		change(t, api, "web", image("img:2"))
		if got := sizes(t, api); got != "img:1=0 img:2=2" {
			t.Errorf("sizes %s", got)
		}
		two := only(t, api, "img:2").Name
		if got, want := told(api, seen), []string{
			"Normal ScalingReplicaSet: Scaled up replica set " + two + " from 0 to 1",
			"Normal ScalingReplicaSet: Scaled down replica set " + one.Name + " from 2 to 1",
			"Normal ScalingReplicaSet: Scaled up replica set " + two + " from 1 to 2",
			"Normal ScalingReplicaSet: Scaled down replica set " + one.Name + " from 1 to 0",
		}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("events %q", got)
		}
		d := read(t, api, "web")
		if d.Annotations[revisionAnnotation] != "2" || d.Status.UpdatedReplicas != 2 || d.Status.AvailableReplicas != 2 || d.Status.Replicas != 2 {
			t.Errorf("revision %s, status %+v", d.Annotations[revisionAnnotation], d.Status)
		}

		change(t, api, "web", image("img:1")) // as kubectl rollout undo does
		if got := sizes(t, api); got != "img:1=2 img:2=0" {
			t.Errorf("sizes %s", got)
		}
		if a := only(t, api, "img:1").Annotations; a[revisionAnnotation] != "3" || a[historyAnnotation] != "1" {
			t.Errorf("annotations %v", a)
		}
	})
}

func TestASecondInstanceWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 2), newDeployment("rec", 2, recreated, func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchLabels["app"] = "rec"
			d.Spec.Template.Labels["app"] = "rec"
		}))
		api.Run(t, (&keeper{}).init)
		first := api.Run(t, Descriptor())
		api.Settle()
		change(t, api, "web", image("img:2"))
		change(t, api, "rec", image("img:2"), replicas(3))
		first.Stop()
		written(api)
		api.Run(t, Descriptor())
		api.Settle()
		time.Sleep(time.Hour)
		if got := written(api); len(got) > 0 {
			t.Errorf("wrote %q", got)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2))
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.Paused = true }, image("img:2"), replicas(4))
		if got := sizes(t, api); got != "img:1=4" {
			t.Errorf("a paused Deployment: %s, want its one ReplicaSet scaled", got)
		}
		if got := progress(t, api, "web"); got != "Unknown DeploymentPaused" {
			t.Errorf("progress %s", got)
		}
		time.Sleep(time.Hour)
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		if got := sizes(t, api); got != "img:1=0 img:2=4" {
			t.Errorf("resumed: %s", got)
		}
		if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
			t.Errorf("progress %s", got)
		}
	})
}

func TestADeploymentThatIsGoingIsOnlyCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2, func(d *appsv1.Deployment) { d.Finalizers = []string{"test/hold"} }))
		written(api)
		api.Delete(t, read(t, api, "web"))
		change(t, api, "web", image("img:2"))
		for _, w := range written(api) {
			if w != "update apps/v1/deployments/status default/web" {
				t.Errorf("wrote %q", w)
			}
		}
		if d := read(t, api, "web"); d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 0 || d.Status.Replicas != 2 {
			t.Errorf("generation %d, status %+v", d.Generation, d.Status)
		}
	})
}

func TestADeploymentThatIsGoingPassesOnItsAnnotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2, func(d *appsv1.Deployment) { d.Finalizers = []string{"test/hold"} }))
		api.Delete(t, read(t, api, "web"))
		change(t, api, "web", func(d *appsv1.Deployment) { d.Annotations["team"], d.Spec.MinReadySeconds = "red", 7 }, replicas(5))
		if rs := only(t, api, "img:1"); rs.Spec.MinReadySeconds != 7 || rs.Annotations["team"] != "red" || size(rs) != 2 {
			t.Errorf("the set has %d seconds, %v and %d replicas", rs.Spec.MinReadySeconds, rs.Annotations, size(rs))
		}
	})
}

func TestADeploymentThatSelectsEverythingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2, func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }))
		if got := told(api, 0); len(got) == 0 || !strings.HasPrefix(got[0], "Warning SelectingAll: ") {
			t.Errorf("events %q", got)
		}
		if d := read(t, api, "web"); d.Status.ObservedGeneration != d.Generation || sizes(t, api) != "" {
			t.Errorf("observed %d, sets %s", d.Status.ObservedGeneration, sizes(t, api))
		}
	})
}

func TestASetThatCannotBeMadeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 2))
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "replicasets" {
				return kittest.Refuse(422, "no such thing")
			}
			return nil
		})
		api.Run(t, (&keeper{}).init)
		api.Run(t, Descriptor())
		time.Sleep(time.Second)
		c := findCondition(read(t, api, "web").Status.Conditions, appsv1.DeploymentProgressing)
		if c == nil || c.Status != corev1.ConditionFalse || c.Reason != reasonCreateError ||
			!strings.HasPrefix(c.Message, `Failed to create new replica set "web-`) || !strings.HasSuffix(c.Message, `: no such thing`) {
			t.Errorf("condition %+v", c)
		}
		if got := told(api, 0); len(got) == 0 || got[0] != "Warning ReplicaSetCreateError: "+c.Message {
			t.Errorf("events %q", got)
		}
		api.Unreact()
		time.Sleep(5 * time.Minute)
		if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
			t.Errorf("progress %s", got)
		}
	})
}

func TestACreateWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 2))
		dropped := false
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "replicasets" && !dropped {
				dropped = true
				return &kittest.Reaction{Drop: true}
			}
			return nil
		})
		sets := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
		api.Run(t, (&keeper{}).init)
		api.Run(t, Descriptor())
		api.FreezeWatch(sets, true)
		time.Sleep(30 * time.Second) // long enough to try again while the cache shows nothing
		api.FreezeWatch(sets, false)
		time.Sleep(5 * time.Minute)
		d := read(t, api, "web")
		if got := sizes(t, api); got != "img:1=2" || d.Status.CollisionCount != nil {
			t.Errorf("sets %s, collisions %v", got, d.Status.CollisionCount)
		}
		if got := progress(t, api, "web"); got != "True NewReplicaSetAvailable" {
			t.Errorf("progress %s", got)
		}
	})
}

func TestHistoryIsCutWhenTheRolloutHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(1)) }))
		for _, i := range []string{"img:2", "img:3", "img:4"} {
			change(t, api, "web", image(i))
		}
		if got := sizes(t, api); got != "img:3=0 img:4=2" {
			t.Errorf("sets %s", got)
		}
		change(t, api, "web", image("img:5"), bad)
		if got := sizes(t, api); got != "img:3=0 img:4=2 img:5=1" {
			t.Errorf("in the middle of a rollout: %s", got)
		}
	})
}

func TestAdoptionAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orphan := func(name, image string) *appsv1.ReplicaSet {
			d := newDeployment("web", 2)
			d.Spec.Template.Spec.Containers[0].Image = image
			return &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
				Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: d.Spec.Selector, Template: d.Spec.Template},
			}
		}
		api := start(t, newDeployment("web", 2), orphan("mine", "img:1"))
		if got := sizes(t, api); got != "img:1=2" {
			t.Errorf("a ReplicaSet of the template was not used: %s", got)
		}
		late := orphan("late", "img:0")
		api.Create(t, late)
		api.Settle()
		if got := sizes(t, api); got != "img:0=0 img:1=2" {
			t.Errorf("one that came later was not adopted: %s", got)
		}
		rs := only(t, api, "img:1")
		rs.Labels = map[string]string{"app": "other"}
		api.Update(t, rs)
		api.Settle()
		var free, owned []string
		for _, rs := range kittest.List[appsv1.ReplicaSet](t, api, "default") {
			if metav1.GetControllerOf(rs) == nil {
				free = append(free, rs.Name)
			} else {
				owned = append(owned, rs.Name)
			}
		}
		if !slices.Equal(free, []string{"mine"}) || len(owned) != 2 {
			t.Errorf("released %v, kept %v", free, owned)
		}
		rs = only(t, api, "img:1")
		if rs.Labels["app"] == "web" {
			rs = &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}}
			api.Get(t, rs)
		}
		rs.Labels = map[string]string{"app": "web"}
		api.Update(t, rs)
		api.Settle()
		if api.Get(t, rs); metav1.GetControllerOf(rs) == nil {
			t.Error("an orphan that matches again was not adopted")
		}
	})
}

func TestAnAdoptedSetIsNotWrittenFromAStaleCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment("web", 2)
		api := kittest.New(t, d, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine", Labels: map[string]string{"app": "web"}},
			Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: d.Spec.Selector, Template: d.Spec.Template},
		})
		var tries int
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == Name && r.Resource.Resource == "replicasets" && r.Verb == "update" {
				tries++
			}
			return nil
		})
		// No keeper here: the status that it writes may come in between, and be a conflict of its own.
		api.Run(t, Descriptor())
		api.Settle()
		var updates int
		for _, w := range written(api) {
			if strings.HasPrefix(w, "update apps/v1/replicasets ") {
				updates++
			}
		}
		if got := sizes(t, api); got != "img:1=2" || updates == 0 || tries != updates {
			t.Errorf("sets %s after %d updates, %d of them stored", got, tries, updates)
		}
	})
}

func TestWhatADeploymentPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2))
		change(t, api, "web", image("img:2"))
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 7 })
		if rs := only(t, api, "img:2"); rs.Spec.MinReadySeconds != 7 {
			t.Errorf("the current set has %d seconds", rs.Spec.MinReadySeconds)
		}
		change(t, api, "web", func(d *appsv1.Deployment) { d.Annotations["team"] = "red" })
		if rs := only(t, api, "img:2"); rs.Spec.MinReadySeconds != 7 || rs.Annotations["team"] != "red" {
			t.Errorf("the current set has %d seconds and %v", rs.Spec.MinReadySeconds, rs.Annotations)
		}
		if rs := only(t, api, "img:1"); rs.Spec.MinReadySeconds != 0 || rs.Annotations["team"] != "" {
			t.Errorf("the old set has %d seconds and %v", rs.Spec.MinReadySeconds, rs.Annotations)
		}
	})
}

func TestADeadlineThatIsSetLateStartsThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newDeployment("web", 2, bad, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }))
		time.Sleep(time.Hour)
		if got := progress(t, api, "web"); got != "" {
			t.Errorf("progress %s without a deadline", got)
		}
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(60)) })
		if got := progress(t, api, "web"); got != "True FoundNewReplicaSet" {
			t.Errorf("progress %s", got)
		}
		time.Sleep(time.Minute + 2*time.Second)
		if got := progress(t, api, "web"); got != "False ProgressDeadlineExceeded" {
			t.Errorf("progress %s", got)
		}
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil })
		if got := progress(t, api, "web"); got != "" {
			t.Errorf("progress %s without a deadline", got)
		}
	})
}

func TestTheTerminatingGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 2))
		api.SetGate(string(terminatingReplicas), false)
		api.Run(t, (&keeper{}).init)
		api.Run(t, Descriptor())
		api.Settle()
		if got := read(t, api, "web").Status; got.Replicas != 2 || got.TerminatingReplicas != nil {
			t.Errorf("status %+v", got)
		}
	})
}

func TestASetThatCannotBeOwnedIsUsedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newDeployment("web", 2))
		var adoptions atomic.Int32
		api.React(func(r *kittest.Request) *kittest.Reaction {
			switch {
			case r.Resource.Resource != "replicasets":
			case r.Verb == "create":
				r.Object.SetOwnerReferences(nil)
			case r.Verb == "patch":
				adoptions.Add(1)
				r.Patch = []byte("{}")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Settle()
		change(t, api, "web", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
		if got := sizes(t, api); got != "img:1=3" {
			t.Errorf("after the size was changed: %s", got)
		}
		change(t, api, "web", image("img:2"))
		if got := sizes(t, api); got != "img:1=3 img:2=1" {
			t.Errorf("after the image was changed: %s", got)
		}
		if d := read(t, api, "web"); d.Status.ObservedGeneration != d.Generation {
			t.Errorf("the status is of generation %d, not of %d", d.Status.ObservedGeneration, d.Generation)
		}
		if n := adoptions.Load(); n == 0 || n > 20 {
			t.Errorf("%d tries to adopt", n)
		}
	})
}
