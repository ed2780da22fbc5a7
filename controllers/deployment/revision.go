package deployment

import (
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Annotations that record the history of a Deployment and the sizing of its ReplicaSets. kubectl uses them too.
const (
	// revisionAnnotation counts the rollouts, on each ReplicaSet and, for the current one, on the Deployment.
	revisionAnnotation = "deployment.kubernetes.io/revision"
	// historyAnnotation lists the earlier revision numbers of a ReplicaSet, comma-separated.
	historyAnnotation = "deployment.kubernetes.io/revision-history"
	// desiredAnnotation on a ReplicaSet is the Deployment's spec.replicas for which it was sized.
	desiredAnnotation = "deployment.kubernetes.io/desired-replicas"
	// maxAnnotation on a ReplicaSet is the ceiling, replicas plus surge, for which it was sized.
	maxAnnotation = "deployment.kubernetes.io/max-replicas"
)

// historyLimit bounds the history annotation, in bytes.
const historyLimit = 2000

// isOwn reports whether an annotation concerns only the object that has it, and is not copied between a Deployment and its
// ReplicaSets.
func isOwn(annotation string) bool {
	switch annotation {
	case revisionAnnotation, historyAnnotation, desiredAnnotation, maxAnnotation,
		appsv1.DeprecatedRollbackTo, corev1.LastAppliedConfigAnnotation:
		return true
	}
	return false
}

// revisionOf reads a ReplicaSet's revision, 0 if it has none; ok is false if it is not a number.
func revisionOf(rs *appsv1.ReplicaSet) (revision int64, ok bool) {
	text, has := rs.Annotations[revisionAnnotation]
	if !has {
		return 0, true
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, err == nil
}

// topRevisions returns the highest and the second highest revision, 0 for none. Invalid revisions are ignored.
func topRevisions(sets []*appsv1.ReplicaSet) (last, before int64) {
	for _, rs := range sets {
		v, ok := revisionOf(rs)
		switch {
		case !ok:
		case v >= last:
			last, before = v, last
		case v > before:
			before = v
		}
	}
	return last, before
}

// annotated returns the annotations of the current ReplicaSet brought up to date: the Deployment's are added, and the
// revision is raised to next. If nothing changes it returns the map it was given. If the revision is not a number, all
// annotations are left alone, for whoever wrote it to correct.
func annotated(have, deployment map[string]string, next int64) (want map[string]string, changed bool) {
	text, has := have[revisionAnnotation]
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil && text != "" {
		return have, false
	}
	want = have
	set := func(k, v string) {
		if old, ok := want[k]; ok && old == v {
			return
		}
		if !changed {
			want, changed = maps.Clone(have), true
		}
		if want == nil {
			want = map[string]string{}
		}
		want[k] = v
	}
	for k, v := range deployment {
		if !isOwn(k) {
			set(k, v)
		}
	}
	if revision < next {
		set(revisionAnnotation, strconv.FormatInt(next, 10))
		if has {
			set(historyAnnotation, lengthened(have[historyAnnotation], text))
		}
	}
	return want, changed
}

// lengthened appends a revision to a history, dropping the oldest entries to stay within the limit. A history whose first
// entry is empty was not written by a controller, and is begun anew.
func lengthened(history, revision string) string {
	if first, _, _ := strings.Cut(history, ","); first == "" {
		return revision
	}
	for len(history)+len(",")+len(revision) > historyLimit {
		_, rest, more := strings.Cut(history, ",")
		if !more {
			return revision
		}
		history = rest
	}
	return history + "," + revision
}

// sized returns the annotations of a ReplicaSet with the bounds for which it is sized. If nothing changes it returns the
// map it was given.
func sized(have map[string]string, b bounds) (want map[string]string, changed bool) {
	desired, ceiling := strconv.Itoa(int(b.desired)), strconv.Itoa(int(b.ceiling()))
	if have[desiredAnnotation] == desired && have[maxAnnotation] == ceiling {
		return have, false
	}
	want = maps.Clone(have)
	if want == nil {
		want = map[string]string{}
	}
	want[desiredAnnotation], want[maxAnnotation] = desired, ceiling
	return want, true
}
