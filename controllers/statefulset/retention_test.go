package statefulset

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/kittest"
)

const (
	keep = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	drop = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

// refs builds owner references from words: set, pod, and other are controllers; with an exclamation mark of a former
// object of that name, with a question mark not as controller.
func refs(words string) (out []metav1.OwnerReference) {
	for _, word := range strings.Fields(words) {
		name := strings.TrimRight(word, "!?")
		ref := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: types.UID(name), BlockOwnerDeletion: new(true)}
		switch name {
		case "pod":
			ref.APIVersion, ref.Kind, ref.Name = "v1", "Pod", "web-1"
		case "other":
			ref.Kind, ref.Name = "Other", "else"
		}
		if strings.HasSuffix(word, "!") {
			ref.UID += "-before"
		}
		if !strings.HasSuffix(word, "?") {
			ref.Controller = new(true)
		}
		out = append(out, ref)
	}
	return out
}

// kube-controller-manager 1.37.2 decides the same: see its tests of claims' owners.
func TestOwnersOfClaimsFollowThePolicy(t *testing.T) {
	both, onDelete, onScale := policy{true, true}, policy{whenDeleted: true}, policy{whenScaled: true}
	for _, c := range []struct {
		has      string
		policy   policy
		surplus  bool
		want     string // "=" for no change
		conflict bool
	}{
		{has: "", want: "="},
		{has: "set", want: ""},
		{has: "pod", surplus: true, want: ""},
		{has: "other", want: "="},
		{has: "other set", want: "other"},
		{has: "", policy: onDelete, want: "set"},
		{has: "set", policy: onDelete, want: "="},
		{has: "", policy: onDelete, surplus: true, want: "set"},
		{has: "pod set", policy: onDelete, want: "set"},
		{has: "", policy: onScale, want: "="},
		{has: "set", policy: onScale, want: ""},
		{has: "", policy: onScale, surplus: true, want: "pod"},
		{has: "pod", policy: onScale, surplus: true, want: "="},
		{has: "pod", policy: onScale, want: ""},
		{has: "", policy: both, want: "set"},
		{has: "set", policy: both, surplus: true, want: "pod"},
		{has: "pod", policy: both, want: "set"},
		{has: "pod", policy: both, surplus: true, want: "="},
		{has: "set?", policy: onDelete, want: "set"},
		{has: "pod?", policy: onScale, surplus: true, want: "pod"},
		{has: "set!", policy: onDelete, want: "=", conflict: true},
		{has: "pod!", policy: onDelete, want: "=", conflict: true},
		{has: "pod!", want: "="},
		{has: "other", policy: onDelete, want: "=", conflict: true},
		{has: "other set", policy: onDelete, want: "other", conflict: true},
		{has: "other?", policy: onDelete, want: "other? set"},
		{has: "other", policy: onScale, surplus: true, want: "=", conflict: true},
	} {
		t.Run(fmt.Sprintf("%q under %+v, surplus %v", c.has, c.policy, c.surplus), func(t *testing.T) {
			before := refs(c.has)
			got := rule(holder{setKind, "web", "set"}, holder{podKind, "web-1", "pod"}, c.policy, c.surplus, before)
			if got.conflict != c.conflict {
				t.Errorf("conflict is %v", got.conflict)
			}
			same := func(a, b metav1.OwnerReference) bool {
				return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID && controls(&a) == controls(&b)
			}
			switch {
			case got.change != (c.want != "="):
				t.Errorf("change is %v", got.change)
			case got.change && !slices.EqualFunc(got.owners, refs(c.want), same):
				t.Errorf("owners %+v, want %q", got.owners, c.want)
			}
			if !slices.EqualFunc(before, refs(c.has), same) {
				t.Error("the references that were given have been changed")
			}
		})
	}
}

func TestAPodThatIsNotThereYetOwnsNothing(t *testing.T) {
	got := rule(holder{setKind, "web", "set"}, holder{podKind, "web-1", ""}, policy{true, true}, false, refs("pod"))
	if got.change || !got.conflict {
		t.Errorf("a claim that is to go with a former pod: %+v", got)
	}
}

func TestAnUnknownPolicyKeepsClaims(t *testing.T) {
	for _, p := range []*appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{nil, {}, {WhenDeleted: drop}, {WhenDeleted: drop, WhenScaled: "Archive"}, {WhenDeleted: keep, WhenScaled: keep}} {
		set := newSet("web", 1)
		set.Spec.PersistentVolumeClaimRetentionPolicy = p
		if got := policyOf(set); !got.keeps() {
			t.Errorf("%+v is read as %+v", p, got)
		}
	}
}

// owners tells who owns a claim: "StatefulSet/web".
func (c *cluster) owners(claim string) string {
	c.t.Helper()
	var out []string
	for _, ref := range c.claim(claim).OwnerReferences {
		out = append(out, ref.Kind+"/"+ref.Name)
	}
	return strings.Join(out, " ")
}

// kubernetes/kubernetes#121142: claims shared the labels of the template while they were encoded.
func TestParallelClaimsHaveLabelsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 1, parallel, storing("data", "log")))
		c.change("web", replicas(20))
		c.Pass(time.Minute)
		if got := c.numbers("web"); got[1] != 20 {
			t.Fatalf("status %v", got)
		}
		for ordinal := range 20 {
			for _, template := range []string{"data", "log"} {
				claim := c.claim(claimName(template, "web", ordinal))
				if claim.Labels["of"] != template || claim.Labels["app"] != "web" || len(claim.Labels) != 2 || len(claim.OwnerReferences) != 0 {
					t.Errorf("claim %+v", claim)
				}
			}
		}
		if got := c.events("SuccessfulCreate"); len(got) != 60 || !slices.Contains(got, "Create Claim log-web-7 Pod web-7 in StatefulSet web success") {
			t.Errorf("%d events", len(got))
		}
	})
}

func TestClaimsAreHandedOverWhenTheSetIsScaled(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": nil, "parallel": {parallel}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, newSet("web", 3, append(opts, storing("data"), retention(drop, drop))...))
				if got := c.owners("data-web-2"); got != "StatefulSet/web" {
					t.Errorf("owners %s", got)
				}
				pod := c.pod("web-2")
				pod.Finalizers = []string{"example.com/hold"} // so that it is there to be seen
				c.Update(t, pod)
				c.change("web", replicas(1))
				c.Pass(500 * time.Millisecond)
				if got := c.owners("data-web-2"); got != "Pod/web-2" || c.claim("data-web-2").OwnerReferences[0].UID != pod.UID {
					t.Errorf("scaled down: owners %s", got)
				}
				if a, b := c.owners("data-web-1"), c.owners("data-web-0"); a != "Pod/web-1" || b != "StatefulSet/web" {
					t.Errorf("scaled down: owners %s and %s", a, b)
				}
			})
		})
	}
}

func TestAPodWaitsForTheClaimOfItsPredecessorToGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 3, storing("data"), retention(drop, drop)))
		c.change("web", replicas(2))
		c.Pass(time.Minute)
		c.change("web", replicas(3))
		c.Pass(time.Hour)
		// The garbage collector, which does not run here, would delete the claim now: its pod is gone.
		if got := c.pods(); got != "web-0 web-1" || c.owners("data-web-2") != "Pod/web-2" {
			t.Errorf("pods %s", got)
		}
		c.Delete(t, c.claim("data-web-2"))
		c.Pass(time.Second)
		if got := c.pods(); got != "web-0 web-1 web-2" || c.owners("data-web-2") != "StatefulSet/web" {
			t.Errorf("pods %s once the claim has gone", got)
		}
	})
}

func TestAChangedPolicyReachesClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 2, storing("data")))
		c.TakeWrites()
		c.change("web", retention(drop, keep))
		c.Pass(time.Minute)
		if got := c.owners("data-web-0") + " " + c.owners("data-web-1"); got != "StatefulSet/web StatefulSet/web" {
			t.Errorf("owners %s", got)
		}
		c.change("web", retention(keep, keep))
		c.Pass(time.Minute)
		if got := c.owners("data-web-0") + c.owners("data-web-1"); got != "" || c.podWrites() != "" {
			t.Errorf("owners %s", got)
		}
		if got := c.events("SuccessfulUpdate"); len(got) != 4 {
			t.Errorf("events %q", got)
		}
	})
}

func TestAForeignClaimIsLeftAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "data-web-0", OwnerReferences: refs("other"),
		}}
		c := start(t, claim, newSet("web", 1, storing("data"), retention(drop, drop)))
		want := "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
		if got := c.events("ConflictingController"); len(got) == 0 || got[0] != want {
			t.Errorf("events %q", got)
		}
		if got := c.owners("data-web-0"); got != "Other/else" || c.pods() != "web-0" {
			t.Errorf("owners %s, pods %s", got, c.pods())
		}
	})
}

// The server refuses an object with two controllers: the pod would never come.
func TestAClaimThatItsTemplateGivesToSomethingElseIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", 1, storing("data"), retention(drop, keep))
		set.Spec.VolumeClaimTemplates[0].OwnerReferences = refs("other")
		c := newCluster(t, set)
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "persistentvolumeclaims" && len(r.Object.GetOwnerReferences()) > 1 {
				return kittest.Refuse(http.StatusUnprocessableEntity, "Only one reference can have Controller set to true")
			}
			return nil
		})
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		if c.pods() != "web-0" {
			t.Fatalf("pods %q", c.pods())
		}
		if got := c.owners("data-web-0"); got != "Other/else" {
			t.Errorf("owners %s", got)
		}
		if got := c.events("ConflictingController"); len(got) == 0 {
			t.Error("nothing tells that the policy does not hold")
		}
	})
}

func TestAClaimThatIsBeingDeletedHoldsItsPodBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-0", Finalizers: []string{"kubernetes.io/pvc-protection"}}}
		c := newCluster(t, claim)
		c.Delete(t, claim)
		c.Create(t, newSet("web", 1, storing("data")))
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(10 * time.Minute)
		want := "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"
		if got := c.events("FailedCreate"); c.pods() != "" || len(got) == 0 || got[0] != want {
			t.Errorf("pods %s, events %q", c.pods(), got)
		}
		held := c.claim("data-web-0")
		held.Finalizers = nil
		c.Update(t, held)
		c.Pass(time.Second)
		if got := c.pods(); got != "web-0" || c.claim("data-web-0").UID == held.UID {
			t.Errorf("pods %q a second after the claim has gone", got)
		}
	})
}

func TestAClaimThatIsBeingDeletedHoldsNoOtherPodOfAParallelSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 2, parallel, storing("data")))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-2", Finalizers: []string{"kubernetes.io/pvc-protection"}}}
		c.Create(t, claim)
		c.Delete(t, claim)
		c.Settle()
		c.change("web", replicas(6))
		c.Pass(time.Minute)
		if got := c.pods(); got != "web-0 web-1 web-3 web-4 web-5" || c.numbers("web") != [5]int32{5, 5, 5, 5, 5} {
			t.Errorf("pods %s, status %v", got, c.numbers("web"))
		}
		want := "Create Pod web-2 in StatefulSet web failed error: pvc data-web-2 is being deleted"
		if got := c.events("FailedCreate"); len(got) == 0 || got[0] != want {
			t.Errorf("events %q", got)
		}
	})
}

func TestAPendingPodGetsALostClaimBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 1, storing("data")))
		c.kubelets.hold(true)
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		lost := c.claim("data-web-0")
		c.Remove(t, lost)
		c.Pass(time.Second)
		if c.claim("data-web-0").UID == lost.UID || c.pods() != "web-0" {
			t.Error("the claim was not made again")
		}
	})
}

// The server lets two templates of one name pass.
func TestTheLastOfTheTemplatesOfOneNameCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates[2].Labels = map[string]string{"of": "the last"}
		}
		c := start(t, newSet("web", 2, storing("data", "logs", "data"), last, retention(drop, drop)))
		for _, name := range []string{"web-0", "web-1"} {
			var volumes []string
			for _, v := range c.pod(name).Spec.Volumes {
				volumes = append(volumes, v.Name+"="+v.PersistentVolumeClaim.ClaimName)
			}
			if want := []string{"logs=logs-" + name, "data=data-" + name}; !slices.Equal(volumes, want) {
				t.Errorf("volumes %q, want %q", volumes, want)
			}
			if got := c.claim("data-" + name).Labels["of"]; got != "the last" || c.owners("data-"+name) != "StatefulSet/web" {
				t.Errorf("the claim is made from %q and owned by %s", got, c.owners("data-"+name))
			}
		}
		if got := c.events("FailedCreate"); len(got) > 0 {
			t.Errorf("failures %q", got)
		}
	})
}

func TestAPodWithoutItsClaimsIsTriedToMend(t *testing.T) {
	other := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	for name, volumes := range map[string][]corev1.Volume{"none": nil, "another of the name": {other}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := loose("web-0", map[string]string{"app": "web", appsv1.StatefulSetPodNameLabel: "web-0"})
				pod.Spec.Volumes = volumes
				c := start(t, newSet("web", 1, storing("data"), strategy(appsv1.OnDeleteStatefulSetStrategyType)), pod)
				// The server of the tests allows what a real one forbids.
				p := c.pod("web-0")
				if len(p.Spec.Volumes) != 1 || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-web-0" || p.Spec.Volumes[0].EmptyDir != nil {
					t.Errorf("volumes %+v", p.Spec.Volumes)
				}
				c.claim("data-web-0")
			})
		})
	}
}
