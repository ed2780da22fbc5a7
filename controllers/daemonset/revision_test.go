package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery/controllers/internal/podctl"
	"orrery/kit/kittest"
)

// numbers returns "image:number" of each revision, sorted by number.
func numbers(t *testing.T, api *kittest.API) string {
	t.Helper()
	var out []string
	for _, r := range revisions(t, api) {
		_, after, _ := strings.Cut(string(r.Data.Raw), `"image":"`)
		image, _, _ := strings.Cut(after, `"`)
		out = append(out, fmt.Sprintf("%d=%s", r.Revision, image))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestGoingBackMakesAnOldRevisionTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web", rolling("100%", "")))...)
		for _, name := range []string{"img:1", "img:2", "img:1"} {
			change(t, api, "web", image(name))
			api.Settle()
			rolledOut(t, api, nil)
			if got := byNode(t, api); got != "n00: "+name+", n01: "+name {
				t.Errorf("pods on %s", got)
			}
		}
		if got := numbers(t, api); got != "2=img:2 3=img:1" {
			t.Errorf("revisions %s", got)
		}
	})
}

func TestTheHistoryIsKeptWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", rolling("100%", ""), func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = new(int32(2)) })
		api := start(t, newNode("n00"), newNode("n01"), set)
		kubelets(t, api)
		api.Settle()
		for i := range 5 {
			change(t, api, "web", image(fmt.Sprintf("img:%d", i+2)))
			api.Settle()
			kubelets(t, api, "n01") // where the pod of the first template lingers
			api.Settle()
			kubelets(t, api, "n01")
			api.Settle()
		}
		if got := numbers(t, api); got != "1=img:1 5=img:5 6=img:6" {
			t.Errorf("while a pod is from the first one: revisions %s", got)
		}
		rolledOut(t, api, nil)
		change(t, api, "web", image("img:9"))
		api.Settle()
		rolledOut(t, api, nil)
		if got := numbers(t, api); got != "5=img:5 6=img:6 7=img:9" {
			t.Errorf("revisions %s", got)
		}
	})
}

func TestATakenNameIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web")
		taken := func(hash string) *appsv1.ControllerRevision {
			return &appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + hash, Labels: map[string]string{hashLabel: hash}},
				Data:       runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace"}}}`)}, Revision: 1,
			}
		}
		first, second := podctl.TemplateHash(&set.Spec.Template, nil), podctl.TemplateHash(&set.Spec.Template, new(int32(1)))
		api := start(t, newNode("n00"), set, taken(first), taken(second))
		kubelets(t, api)
		api.Settle()
		got := get(t, api, "web")
		if got.Status.CollisionCount == nil || *got.Status.CollisionCount != 2 {
			t.Errorf("collisions %v, want 2", got.Status.CollisionCount)
		}
		want := podctl.TemplateHash(&set.Spec.Template, new(int32(2)))
		if pod := podOn(t, api, "n00"); pod.Labels[hashLabel] != want {
			t.Errorf("hash %s, want %s", pod.Labels[hashLabel], want)
		}
		if len(revisions(t, api)) != 3 {
			t.Errorf("%d revisions", len(revisions(t, api)))
		}
		wantStatus(t, api, "web", counts{desired: 1, current: 1, ready: 1, updated: 1, available: 1})
	})
}

func TestARevisionThatIsRepeatedIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(3), newSet("web"))...)
		kubelets(t, api)
		api.Settle()
		change(t, api, "web", image("img:2"))
		api.Settle() // n00 is being replaced, n01 and n02 are of the first revision
		first, before := revisions(t, api)[0], podOn(t, api, "n02")
		for _, r := range revisions(t, api) {
			if r.Revision == 1 {
				first = r
			}
		}
		second := first.DeepCopy()
		second.UID, second.ResourceVersion, second.Name, second.Revision = "", "", "web-again", 7
		second.Labels[hashLabel] = "again"
		api.Create(t, second)
		changePod(t, api, podOn(t, api, "n01"), func(p *corev1.Pod) { p.Labels[hashLabel] = "again" })
		api.Settle()
		change(t, api, "web", image("img:1"))
		api.Settle()
		rolledOut(t, api, nil)
		// The copy's number of 7 made the one of the update the eighth.
		if got := numbers(t, api); got != "8=img:2 9=img:1" {
			t.Errorf("revisions %s", got)
		}
		for _, node := range []string{"n00", "n01", "n02"} {
			if p := podOn(t, api, node); p.Labels[hashLabel] != "again" || p.Spec.Containers[0].Image != "img:1" {
				t.Errorf("pod on %s: hash %s, image %s", node, p.Labels[hashLabel], p.Spec.Containers[0].Image)
			}
		}
		if podOn(t, api, "n02").UID != before.UID {
			t.Error("a pod was replaced by its like")
		}
	})
}

func TestARevisionWithoutAHashIsKnownByItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newNode("n00"), newSet("web"))
		kubelets(t, api)
		r := revisions(t, api)[0]
		name := r.Name
		delete(r.Labels, hashLabel)
		api.Update(t, r)
		api.Settle()
		if got := revisions(t, api); len(got) != 1 || got[0].Labels[hashLabel] != name || got[0].Labels["app"] != "web" {
			t.Errorf("revisions %v", got)
		}
	})
}

func TestOrphansAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web"))...)
		kubelets(t, api)
		api.Settle()
		set := get(t, api, "web")
		for _, p := range pods(t, api) {
			changePod(t, api, p, func(p *corev1.Pod) { p.OwnerReferences = nil })
		}
		r := revisions(t, api)[0]
		r.OwnerReferences = nil
		api.Update(t, r)
		api.Settle()
		if w := api.Writes(); count(w, "delete") > 0 || count(w, "create v1/pods") != 2 || count(w, "create apps/v1/controllerrevisions") != 1 {
			t.Errorf("writes %q", w)
		}
		for _, p := range pods(t, api) {
			if !metav1.IsControlledBy(p, set) {
				t.Errorf("pod %s is controlled by %v", p.Name, p.OwnerReferences)
			}
		}
		if r := revisions(t, api)[0]; !metav1.IsControlledBy(r, set) {
			t.Errorf("revision %s is controlled by %v", r.Name, r.OwnerReferences)
		}
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, updated: 2, available: 2})
	})
}

func TestAPodThatNoLongerMatchesIsReleasedAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web"))...)
		kubelets(t, api)
		api.Settle()
		old := podOn(t, api, "n01")
		changePod(t, api, old, func(p *corev1.Pod) { p.Labels["app"] = "other" })
		api.Settle()
		kubelets(t, api)
		api.Settle()
		api.Get(t, old)
		if len(old.OwnerReferences) != 0 || old.DeletionTimestamp != nil {
			t.Errorf("the pod is owned by %v, deleted at %v", old.OwnerReferences, old.DeletionTimestamp)
		}
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, updated: 2, available: 2})
		if n := len(pods(t, api)); n != 3 {
			t.Errorf("%d pods", n)
		}
	})
}

// The cache shows the release late, and all old pods may be deleted at once.
func TestAReleasedPodIsNotTakenForAnOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, append(newNodes(2), newSet("web", rolling("100%", "")))...)
		first := api.Run(t, Descriptor())
		api.Settle()
		kubelets(t, api)
		api.Settle()
		first.Stop()
		old := podOn(t, api, "n01")
		changePod(t, api, old, func(p *corev1.Pod) { p.Labels["app"] = "other" })
		change(t, api, "web", image("img:2"))
		api.Pass(time.Second)
		api.DelayWatch(podKind, 5*time.Second)
		api.Run(t, Descriptor())
		api.Pass(time.Minute)
		if api.Get(t, old); len(old.OwnerReferences) != 0 || old.DeletionTimestamp != nil {
			t.Errorf("the pod is owned by %v, deleted at %v", old.OwnerReferences, old.DeletionTimestamp)
		}
		api.DelayWatch(podKind, 0)
		for range 3 {
			kubelets(t, api)
			api.Settle()
		}
		if got := byNode(t, api); got != "n00: img:2, n01: img:1 img:2" {
			t.Errorf("pods on %s", got)
		}
	})
}

func TestALaterNamesakeTakesOverWhatWasOrphaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web"))...)
		kubelets(t, api)
		api.Settle()
		before := byNode(t, api)
		api.Remove(t, get(t, api, "web"))
		for _, p := range pods(t, api) {
			changePod(t, api, p, func(p *corev1.Pod) { p.OwnerReferences = nil })
		}
		r := revisions(t, api)[0]
		r.OwnerReferences = nil
		api.Update(t, r)
		api.Settle()
		api.TakeWrites()
		api.Create(t, newSet("web"))
		api.Pass(time.Minute)
		if w := api.Writes(); count(w, "create") > 0 || count(w, "delete") > 0 {
			t.Errorf("writes %q", w)
		}
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, updated: 2, available: 2})
		if got := byNode(t, api); got != before {
			t.Errorf("pods on %s, before on %s", got, before)
		}
	})
}
