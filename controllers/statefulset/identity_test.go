package statefulset

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func TestNamesAreReadAsTheyAreMade(t *testing.T) {
	for name, want := range map[string]struct {
		owner   string
		ordinal int
		ok      bool
	}{
		"web-0":          {"web", 0, true},
		"web-a-12":       {"web-a", 12, true},
		"web-0-1":        {"web-0", 1, true},
		"-1":             {"", 1, true},
		"web--1":         {"web-", 1, true},
		"web-2147483647": {"web", 2147483647, true},
		"web-2147483648": {},
		"web-01":         {},
		"web-00":         {},
		"web-":           {},
		"web-x":          {},
		"web-+1":         {},
		"web":            {},
		"":               {},
	} {
		owner, ordinal, ok := parent(name)
		if ok != want.ok || ok && (owner != want.owner || ordinal != want.ordinal) {
			t.Errorf("%q: %q %d %v, want %+v", name, owner, ordinal, ok, want)
		}
		if ok && podName(owner, ordinal) != name {
			t.Errorf("%q is read as %q %d and made as %q", name, owner, ordinal, podName(owner, ordinal))
		}
	}
}

func TestAPodHasItsIdentity(t *testing.T) {
	set := newSet("web", 3, storing("data", "log"))
	set.UID = "set-uid"
	template := set.Spec.Template.DeepCopy()
	template.Annotations = map[string]string{"a": "b"}
	template.Spec.Volumes = []corev1.Volume{{Name: "tmp"}, {Name: "log"}, {Name: "etc"}}
	pod := newPod(set, template, "web-abc", 7)
	wantLabels := map[string]string{
		"app": "web", "statefulset.kubernetes.io/pod-name": "web-7", "apps.kubernetes.io/pod-index": "7", "controller-revision-hash": "web-abc",
	}
	for key, value := range wantLabels {
		if pod.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, pod.Labels[key], value)
		}
	}
	if len(pod.Labels) != len(wantLabels) || pod.Annotations["a"] != "b" || pod.Namespace != "default" || pod.Name != "web-7" || pod.GenerateName != "web-" ||
		pod.Spec.Hostname != "web-7" || pod.Spec.Subdomain != "svc" || !metav1.IsControlledBy(pod, set) {
		t.Errorf("pod %+v", pod)
	}
	var volumes []string
	for _, v := range pod.Spec.Volumes {
		claim := ""
		if v.PersistentVolumeClaim != nil {
			claim = v.PersistentVolumeClaim.ClaimName
		}
		volumes = append(volumes, v.Name+"="+claim)
	}
	if got := len(volumes); got != 4 || volumes[0] != "data=data-web-7" || volumes[1] != "log=log-web-7" || volumes[2] != "tmp=" || volumes[3] != "etc=" {
		t.Errorf("volumes %q", volumes)
	}
	if len(template.Spec.Volumes) != 3 || template.Spec.Volumes[1].Name != "log" || len(template.Labels) != 1 {
		t.Error("making a pod changed the template")
	}
	if !identified(pod) || !stored(set, pod, 7) || stored(set, pod, 6) {
		t.Error("a new pod needs repair")
	}
}

func TestALostLabelIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 2))
		c.podWrites()
		c.changePod("web-1", func(p *corev1.Pod) {
			delete(p.Labels, appsv1.StatefulSetPodNameLabel)
			p.Labels[appsv1.PodIndexLabel] = "x"
			p.Labels["mine"] = "y"
		})
		c.Pass(time.Minute)
		p := c.pod("web-1")
		if p.Labels[appsv1.StatefulSetPodNameLabel] != "web-1" || p.Labels[appsv1.PodIndexLabel] != "1" || p.Labels["mine"] != "y" || c.podWrites() != "patch web-1" {
			t.Errorf("labels %v", p.Labels)
		}
		if got := c.events("SuccessfulUpdate"); len(got) != 1 || got[0] != "Update Pod web-1 in StatefulSet web successful" {
			t.Errorf("events %q", got)
		}
	})
}

func loose(name string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:1"}}},
	}
	makeReady(p)
	return p
}

func ownerOf(p *corev1.Pod) string {
	if ref := metav1.GetControllerOf(p); ref != nil {
		return ref.Name
	}
	return ""
}

func TestOnlyPodsWithANameOfTheSetAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		like := map[string]string{"app": "web"}
		c := start(t, newSet("web", 2), loose("web-1", like), loose("web-01", like), loose("web-x", like), loose("web-9", map[string]string{"app": "db"}))
		for name, want := range map[string]string{"web-0": "web", "web-1": "web", "web-01": "", "web-x": "", "web-9": ""} {
			if got := ownerOf(c.pod(name)); got != want {
				t.Errorf("%s belongs to %q, want %q", name, got, want)
			}
		}
		// The adopted pod is of no revision, so it is replaced.
		if revisionOf(c.pod("web-1")) == "" {
			t.Error("the adopted pod was not brought up to date")
		}
	})
}

func TestAnOrphanWakesTheSetOfItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 1))
		c.podWrites()
		c.Create(t, loose("web-5", map[string]string{"app": "web"}))
		c.Pass(time.Minute)
		if got := c.podWrites(); got != "patch web-5, delete web-5" {
			t.Errorf("it did %s", got)
		}
		c.Create(t, loose("web-6", map[string]string{"app": "other"}))
		c.changePod("web-0", func(p *corev1.Pod) { p.Labels["app"] = "other" })
		c.Pass(time.Second)
		if got := ownerOf(c.pod("web-0")); got != "" {
			t.Errorf("a pod that the selector does not match belongs to %q", got)
		}
		// It stands in the way of its successor until it is gone, and then not a moment longer.
		c.Pass(time.Hour)
		before := c.pod("web-0").UID
		c.Remove(t, c.pod("web-0"))
		c.Pass(time.Second)
		if c.pod("web-0").UID == before || ownerOf(c.pod("web-0")) != "web" {
			t.Error("the pod was not made again once its name was free")
		}
	})
}

func TestASetThatIsBeingDeletedDoesNothingButReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 3))
		set := c.set("web")
		set.Finalizers = []string{"example.com/hold"}
		c.Update(t, set)
		c.Delete(t, c.set("web"))
		c.Pass(time.Second)
		c.TakeWrites()
		c.Remove(t, c.pod("web-1"))
		for _, r := range c.revisions() {
			c.Remove(t, r)
		}
		c.Pass(time.Minute)
		for _, w := range c.TakeWrites() {
			if w != "update apps/v1/statefulsets/status default/web" {
				t.Errorf("it did %s", w)
			}
		}
		s := c.set("web").Status
		if s.Replicas != 2 || s.UpdateRevision == "" || s.CurrentRevision != s.UpdateRevision {
			t.Errorf("status %+v", s)
		}
	})
}

func TestNothingIsCreatedInANamespaceThatIsBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		c := start(t, ns, newSet("web", 3), newSet("par", 3, parallel))
		c.Delete(t, ns)
		c.Pass(time.Second)
		c.TakeWrites()
		for _, name := range []string{"web-2", "web-0", "par-1", "par-0"} {
			c.Remove(t, c.pod(name))
		}
		c.Pass(time.Minute)
		if got := c.podWrites(); got != "" {
			t.Errorf("it did %s", got)
		}
		if got := c.numbers("web"); got[0] != 1 {
			t.Errorf("status %v", got)
		}
	})
}

func TestAPoisonedSetStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := newSet("broken", 1)
		broken.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Nonsense"}}
		c := newCluster(t, broken, newSet("huge", 2_000_000_000, parallel, storing("data")), newSet("refused", 3, parallel), newSet("web", 2))
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" && r.Object.GetLabels()["app"] == "refused" {
				return kittest.Refuse(http.StatusForbidden, "no")
			}
			if r.Verb == "create" && r.Object.GetLabels()["app"] == "huge" && r.Resource.Resource == "persistentvolumeclaims" {
				return kittest.Refuse(http.StatusForbidden, "exceeded quota")
			}
			return nil
		})
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(10 * time.Minute)
		if got := c.pods(); got != "web-0 web-1" || c.numbers("web")[2] != 2 {
			t.Errorf("pods %s", got)
		}
		if got := c.events("FailedCreate"); len(got) == 0 || len(got) > 100 {
			t.Errorf("%d events of failures in ten minutes", len(got))
		}
	})
}
