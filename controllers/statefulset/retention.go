package statefulset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// policy says when claims are deleted: with their set, and with their pod when the set is scaled down.
type policy struct {
	whenDeleted, whenScaled bool
}

// keeps reports whether claims are never deleted, so that the controller leaves their owners alone.
func (p policy) keeps() bool { return !p.whenDeleted && !p.whenScaled }

// policyOf reads a set's policy. A value that is not known keeps all claims.
func policyOf(set *appsv1.StatefulSet) policy {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return policy{}
	}
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	for _, when := range []appsv1.PersistentVolumeClaimRetentionPolicyType{p.WhenDeleted, p.WhenScaled} {
		if when != keep && when != drop {
			return policy{}
		}
	}
	return policy{whenDeleted: p.WhenDeleted == drop, whenScaled: p.WhenScaled == drop}
}

// holder is an object that may be given a claim: the set, or a pod. A pod that does not exist yet has no UID.
type holder struct {
	kind schema.GroupVersionKind
	name string
	uid  types.UID
}

// named reports whether a reference is to the object or to another one that had its name.
func (h holder) named(ref *metav1.OwnerReference) bool {
	return ref.Name == h.name && ref.Kind == h.kind.Kind && ref.APIVersion == h.kind.GroupVersion().String()
}

// standing is what the owner references of a claim say about one holder.
type standing struct {
	owns  bool // by UID
	plain bool // it owns the claim, but not as its controller
	stale bool // an object of its name that no longer exists owned the claim
}

func (h holder) standing(refs []metav1.OwnerReference) (s standing) {
	for i := range refs {
		ref := &refs[i]
		switch {
		case h.uid != "" && ref.UID == h.uid:
			s.owns = true
			s.plain = s.plain || !controls(ref)
		case h.named(ref):
			s.stale = true
		}
	}
	return s
}

func controls(ref *metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

// ruling is what is to become of the owners of a claim.
type ruling struct {
	change bool
	owners []metav1.OwnerReference // if change
	// conflict says that something else controls the claim, so that the policy does not apply to it.
	conflict bool
}

// rule decides on the owners of a claim of a pod. surplus says that the pod's ordinal no longer belongs to the set. A claim
// that refers to a set or pod that no longer exists is left to the garbage collector.
func rule(set, pod holder, p policy, surplus bool, refs []metav1.OwnerReference) (r ruling) {
	ofSet, ofPod := set.standing(refs), pod.standing(refs)
	stale := ofSet.stale || ofPod.stale
	r.conflict = !p.keeps() && (stale || slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool {
		return controls(&ref) && !set.named(&ref) && !pod.named(&ref)
	}))
	toPod := p.whenScaled && surplus
	toSet := p.whenDeleted && !toPod
	switch {
	case stale:
		return r
	case r.conflict:
		toPod, toSet = false, false
		r.change = ofSet.owns || ofPod.owns
	default:
		r.change = ofSet.owns != toSet || ofPod.owns != toPod || ofSet.plain || ofPod.plain
	}
	if !r.change {
		return r
	}
	r.owners = slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return set.named(&ref) || pod.named(&ref) })
	if toSet {
		r.owners = give(r.owners, set)
	}
	if toPod {
		r.owners = give(r.owners, pod)
	}
	return r
}

// give makes a holder the controller of a claim, unless it is among the owners in some other form.
func give(refs []metav1.OwnerReference, h holder) []metav1.OwnerReference {
	if slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.UID == h.uid }) {
		return refs
	}
	return append(refs, *metav1.NewControllerRef(&metav1.ObjectMeta{Name: h.name, UID: h.uid}, h.kind))
}

// claimWork is what is to happen to the claims of one ordinal.
type claimWork struct {
	create    []*corev1.PersistentVolumeClaim
	going     []string // being deleted: their pod has to wait
	reown     []reowning
	conflicts []string // controlled by something else
	stale     bool     // one is to be deleted together with a pod that no longer exists
}

type reowning struct {
	claim  *corev1.PersistentVolumeClaim // from the cache
	owners []metav1.OwnerReference
}

// claimsOf decides on the claims of a member of a set, whose pod may be missing.
func (s *state) claimsOf(m member) (w claimWork) {
	if len(s.set.Spec.VolumeClaimTemplates) == 0 {
		return w
	}
	p := policyOf(s.set)
	set := holder{setKind, s.set.Name, s.set.UID}
	pod := holder{kind: podKind, name: podName(s.set.Name, m.ordinal)}
	if m.pod != nil {
		pod.uid = m.pod.UID
	}
	for template := range claimTemplates(s.set) {
		claim, ok := s.claim(claimName(template.Name, s.set.Name, m.ordinal))
		if !ok {
			claim = newClaim(s.set, template, m.ordinal)
			w.create = append(w.create, claim)
			if rule(set, pod, p, false, claim.OwnerReferences).conflict {
				w.conflicts = append(w.conflicts, claim.Name)
			}
			continue
		}
		if claim.DeletionTimestamp != nil {
			w.going = append(w.going, claim.Name)
		}
		r := rule(set, pod, p, !s.within(m.ordinal), claim.OwnerReferences)
		if r.conflict {
			w.conflicts = append(w.conflicts, claim.Name)
		}
		if r.change {
			w.reown = append(w.reown, reowning{claim, r.owners})
		}
		w.stale = w.stale || p.whenScaled && pod.standing(claim.OwnerReferences).stale
	}
	return w
}
