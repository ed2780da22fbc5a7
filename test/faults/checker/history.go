package checker

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// remembered is how many changes of one object are kept.
const remembered = 25

// history is the changes of one object, oldest first.
type history struct{ lines []string }

func (c *Checker) remember(e Event) {
	h := c.histories[e.Object.GetUID()]
	if h == nil {
		h = &history{}
		c.histories[e.Object.GetUID()] = h
	}
	what := describe(e.Object)
	if e.Gone {
		what = "is gone"
	}
	line := fmt.Sprintf("%s %s @%s: %s", e.At.Format(clock), name(e.Object), e.Object.GetResourceVersion(), what)
	if h.lines = append(h.lines, line); len(h.lines) > remembered {
		h.lines = slices.Delete(h.lines, 0, 1)
	}
}

func (c *Checker) historyOf(uid types.UID) []string {
	if h := c.histories[uid]; h != nil {
		return slices.Clone(h.lines)
	}
	return nil
}

func name(o metav1.Object) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
	if kind == "PartialObjectMetadata" {
		kind = "Widget" // of the custom kind alone no more than that is read
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}

// describe returns, on one line, the fields of an object that matter to the rules.
func describe(o metav1.Object) string {
	var s string
	switch o := o.(type) {
	case *corev1.Pod:
		s = fmt.Sprintf("%s ready=%t node=%s", o.Status.Phase, ready(o), o.Spec.NodeName)
		if reason, at := disruption(o); reason != "" {
			s += " " + reason + " at " + at.Format(clock)
		}
		for _, l := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, batchv1.JobCompletionIndexAnnotation} {
			if v := o.Labels[l]; v != "" {
				s += " " + l[strings.LastIndex(l, "/")+1:] + "=" + v
			}
		}
	case *appsv1.ReplicaSet:
		s = fmt.Sprintf("asks for %d, observed %d of %d, has %d, ready %d", *o.Spec.Replicas, o.Status.ObservedGeneration, o.Generation, o.Status.Replicas, o.Status.ReadyReplicas)
	case *appsv1.Deployment:
		t := o.Status
		s = fmt.Sprintf("asks for %d, observed %d of %d, has %d, updated %d, available %d", *o.Spec.Replicas, t.ObservedGeneration, o.Generation, t.Replicas, t.UpdatedReplicas, t.AvailableReplicas)
	case *appsv1.StatefulSet:
		t := o.Status
		s = fmt.Sprintf("asks for %d, observed %d of %d, has %d, updated %d, ready %d, revision %s of %s", *o.Spec.Replicas, t.ObservedGeneration, o.Generation, t.Replicas, t.UpdatedReplicas, t.ReadyReplicas, t.CurrentRevision, t.UpdateRevision)
	case *appsv1.DaemonSet:
		t := o.Status
		s = fmt.Sprintf("observed %d of %d, wants %d, has %d, updated %d, available %d", t.ObservedGeneration, o.Generation, t.DesiredNumberScheduled, t.CurrentNumberScheduled, t.UpdatedNumberScheduled, t.NumberAvailable)
	case *batchv1.Job:
		s = fmt.Sprintf("active %d, succeeded %d, failed %d, end %q", o.Status.Active, o.Status.Succeeded, o.Status.Failed, jobEnd(o))
		if u := o.Status.UncountedTerminatedPods; u != nil {
			s += fmt.Sprintf(", uncounted %d and %d", len(u.Succeeded), len(u.Failed))
		}
	case *batchv1.CronJob:
		s = fmt.Sprintf("last start %s, %d active", o.Status.LastScheduleTime, len(o.Status.Active))
	case *policyv1.PodDisruptionBudget:
		t := o.Status
		s = fmt.Sprintf("allows %d, healthy %d of %d, expects %d, %d disrupted", t.DisruptionsAllowed, t.CurrentHealthy, t.DesiredHealthy, t.ExpectedPods, len(t.DisruptedPods))
	case *discoveryv1.EndpointSlice:
		for _, e := range o.Endpoints {
			if e.TargetRef != nil {
				s += fmt.Sprintf(" %s ready=%t", e.TargetRef.Name, isTrue(e.Conditions.Ready))
			}
		}
	case *corev1.Node:
		status, _ := readiness(o)
		s = fmt.Sprintf("ready %q", status)
		for _, t := range o.Spec.Taints {
			s += fmt.Sprintf(" %s:%s", t.Key, t.Effect)
		}
	}
	for _, ref := range o.GetOwnerReferences() {
		s += " of " + ref.Kind + " " + ref.Name
	}
	if len(o.GetFinalizers()) > 0 {
		s += " finalizers=" + strings.Join(o.GetFinalizers(), ",")
	}
	if o.GetDeletionTimestamp() != nil {
		s += " being deleted"
	}
	return s
}
