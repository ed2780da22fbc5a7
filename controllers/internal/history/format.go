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

// HashLabel holds the hash of a StatefulSet's revision. Pods have a different label, which holds the revision's name.
const HashLabel = "controller.kubernetes.io/hash"

// maxOwnerName is the length to which a StatefulSet's name is truncated in the name of a revision.
const maxOwnerName = 223

// Format describes how the revisions of one kind of owner differ from those of other kinds.
type Format struct {
	// Owner is the kind of the owner.
	Owner schema.GroupVersionKind
	// HashLabel is the label of a revision that holds its hash.
	HashLabel string

	// hash computes the variable part of a revision's name.
	hash func(template *corev1.PodTemplateSpec, data []byte, collisions *int32) string
	// maxOwnerName is the length to which the owner's name is truncated in the name of a revision; 0 for as much as fits.
	maxOwnerName int
	// releases says whether revisions that the owner's selector no longer matches are released.
	releases bool
	// limitCountsUsed says whether revisions in use count against the history limit.
	limitCountsUsed bool
}

// StatefulSets is the format of StatefulSets' revisions. Their hash is a hash of the data.
func StatefulSets() Format {
	return Format{Owner: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), HashLabel: HashLabel, hash: dataHash, maxOwnerName: maxOwnerName}
}

// DaemonSets is the format of DaemonSets' revisions. Their hash is the one that Deployments use for ReplicaSets; it is also
// the value of the label controller-revision-hash on pods.
func DaemonSets() Format {
	return Format{
		Owner: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), HashLabel: appsv1.DefaultDaemonSetUniqueLabelKey,
		hash: func(template *corev1.PodTemplateSpec, _ []byte, collisions *int32) string {
			return podctl.TemplateHash(template, collisions)
		},
		releases: true, limitCountsUsed: true,
	}
}

// New returns a revision of an owner's template, to be created. data is the encoded template. collisions is how often a
// name was taken before; nil and 0 result in different names, so an owner must always use the same of the two. The result
// shares only the data with the arguments.
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

// renamed returns a revision with the name that results from a number of collisions. The labels stay as they are, as
// upstream does it.
func (f Format) renamed(revision *appsv1.ControllerRevision, owner metav1.Object, template *corev1.PodTemplateSpec, collisions int32) *appsv1.ControllerRevision {
	next := *revision
	next.Name = f.nameOf(owner, f.hash(template, revision.Data.Raw, &collisions))
	return &next
}

// nameOf returns the name of a revision. If the truncated part ended in a dot, the server would reject the name.
func (f Format) nameOf(owner metav1.Object, hash string) string {
	name, room := owner.GetName(), validation.DNS1123SubdomainMaxLength-len("-")-len(hash)
	if f.maxOwnerName > 0 {
		room = f.maxOwnerName
	}
	if len(name) > room {
		name = name[:room]
		if f.maxOwnerName == 0 {
			name = strings.TrimRight(name, ".")
		}
	}
	return name + "-" + hash
}

// dataHash is the 32-bit FNV-1 hash of the data and, if collisions is not nil, its decimal digits. It is formatted in
// decimal and then encoded in the alphabet of rand.SafeEncodeString.
func dataHash(_ *corev1.PodTemplateSpec, data []byte, collisions *int32) string {
	h := fnv.New32()
	_, _ = h.Write(data) // a hash never fails
	if collisions != nil {
		_, _ = h.Write(strconv.AppendInt(nil, int64(*collisions), 10))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
