package history

import (
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"orrery/controllers/internal/podctl"
)

// HashLabel holds the hash of a StatefulSet's revision. The pods' label is another one and holds the revision's name.
const HashLabel = "controller.kubernetes.io/hash"

// longestOwner is how much of a StatefulSet's name goes into that of a revision.
const longestOwner = 223

// Format is what the revisions of one kind of owner look like, where kinds differ.
type Format struct {
	// Owner is the kind of the owner.
	Owner schema.GroupVersionKind
	// HashLabel is the label of a revision that holds its hash.
	HashLabel string

	// hash makes the variable part of a revision's name.
	hash func(template *corev1.PodTemplateSpec, data []byte, collisions *int32) string
	// longestOwner is how much of the owner's name goes into that of a revision; 0 is as much as there is room for.
	longestOwner int
	// releases tells whether revisions that the owner's selector no longer matches are let go.
	releases bool
	// keepsUsedWithin tells whether revisions in use count against the history limit.
	keepsUsedWithin bool
}

// StatefulSets is the format of StatefulSets' revisions. The hash is that of the data.
func StatefulSets() Format {
	return Format{Owner: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), HashLabel: HashLabel, hash: dataHash, longestOwner: longestOwner}
}

// DaemonSets is the format of DaemonSets' revisions. The hash is the one by which Deployments name ReplicaSets, and is
// the value of the label controller-revision-hash on the pods as well.
func DaemonSets() Format {
	return Format{
		Owner: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), HashLabel: appsv1.DefaultDaemonSetUniqueLabelKey,
		hash: func(template *corev1.PodTemplateSpec, _ []byte, collisions *int32) string {
			return podctl.TemplateHash(template, collisions)
		},
		releases: true, keepsUsedWithin: true,
	}
}

// New returns a revision of an owner's template, to be created. data is what Encode makes of the template. collisions
// is how often a name was taken before; nil and 0 make different names, and an owner has to stay with one of them.
// Nothing is shared with the arguments but the data.
func (f Format) New(owner metav1.Object, template *corev1.PodTemplateSpec, data []byte, number int64, collisions *int32) *appsv1.ControllerRevision {
	hash := f.hash(template, data, collisions)
	labels := map[string]string{}
	maps.Copy(labels, template.Labels)
	labels[f.HashLabel] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			Name:            f.nameOf(owner, hash),
			Labels:          labels,
			Annotations:     maps.Clone(owner.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, f.Owner)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// renamed returns a revision under the name that it has after so many collisions. Its labels stay as they are: that is
// how others leave them.
func (f Format) renamed(revision *appsv1.ControllerRevision, owner metav1.Object, template *corev1.PodTemplateSpec, collisions int32) *appsv1.ControllerRevision {
	next := *revision
	next.Name = f.nameOf(owner, f.hash(template, revision.Data.Raw, &collisions))
	return &next
}

// nameOf returns the name of a revision. A cut behind a dot would leave a name that the server refuses.
func (f Format) nameOf(owner metav1.Object, hash string) string {
	name, room := owner.GetName(), validation.DNS1123SubdomainMaxLength-len("-")-len(hash)
	if f.longestOwner > 0 {
		room = f.longestOwner
	}
	if len(name) > room {
		name = name[:room]
		if f.longestOwner == 0 {
			name = strings.TrimRight(name, ".")
		}
	}
	return name + "-" + hash
}

// dataHash is FNV-1 (32 bit) over the data and, if there is a number of collisions, its decimal digits; in decimal, in
// the alphabet that spells no words.
func dataHash(_ *corev1.PodTemplateSpec, data []byte, collisions *int32) string {
	h := fnv.New32()
	_, _ = h.Write(data) // a hash never fails
	if collisions != nil {
		_, _ = h.Write(strconv.AppendInt(nil, int64(*collisions), 10))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
