package checker

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type replicaSet struct {
	*appsv1.ReplicaSet
	deployment types.UID
	bounds     envelope
}

func (c *Checker) onReplicaSet(o *appsv1.ReplicaSet, gone bool) {
	if gone {
		delete(c.sets, o.UID)
		return
	}
	rs := c.sets[o.UID]
	if rs == nil {
		rs = &replicaSet{}
		c.sets[o.UID] = rs
	}
	rs.ReplicaSet, rs.deployment = o, ""
	if ref := metav1.GetControllerOf(o); ref != nil {
		rs.deployment = ref.UID
	}
	settled := o.Status.ObservedGeneration >= o.Generation && o.Status.Replicas == *o.Spec.Replicas
	rs.bounds.note(settled, 0, *o.Spec.Replicas)
	c.checkReplicaSet(rs)
	c.checkDeployment(c.deploys[rs.deployment])
}

func (c *Checker) checkReplicaSet(rs *replicaSet) {
	if rs.DeletionTimestamp != nil {
		return
	}
	if pods := c.podsOf(rs.UID, active); len(pods) > int(rs.bounds.high) {
		c.violated("replicas", rs.ReplicaSet, pods, "%d pods, asked for %d at most", len(pods), rs.bounds.high)
	}
}

type deployment struct {
	*appsv1.Deployment
	bounds envelope
	since  time.Time // since when there are too many pods; zero if there are not
}

// surgePatience is how long, while there are no faults, there may be more pods than the surge allows: one ReplicaSet may
// create its pods before another has deleted its own. The sizes of the ReplicaSets must keep the bounds at all times.
const surgePatience = 10 * time.Second

func (c *Checker) onDeployment(o *appsv1.Deployment, gone bool) {
	if gone {
		delete(c.deploys, o.UID)
		return
	}
	d := c.deploys[o.UID]
	if d == nil {
		d = &deployment{}
		c.deploys[o.UID] = d
	}
	d.Deployment = o
	n, s := *o.Spec.Replicas, o.Status
	surge, unavailable := int32(0), n
	if r := o.Spec.Strategy.RollingUpdate; o.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType && r != nil {
		surge, unavailable = scaled(r.MaxSurge, n, true), scaled(r.MaxUnavailable, n, false)
		if surge == 0 && unavailable == 0 {
			unavailable = 1
		}
	}
	settled := s.ObservedGeneration >= o.Generation && s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n
	d.bounds.note(settled && c.obeyed(d), n-unavailable, n+surge)
	c.checkDeployment(d)
}

// obeyed reports whether each ReplicaSet of the Deployment has acted on its latest size. Until then it may still delete pods
// because of an earlier size that was reverted, which the status of the Deployment does not show.
func (c *Checker) obeyed(d *deployment) bool {
	for _, rs := range c.sets {
		if rs.deployment == d.UID && rs.Status.ObservedGeneration < rs.Generation {
			return false
		}
	}
	return true
}

// scaled resolves a number or percentage of n.
func scaled(v *intstr.IntOrString, n int32, up bool) int32 {
	if v == nil {
		return 0
	}
	k, err := intstr.GetScaledValueFromIntOrPercent(v, int(n), up)
	if err != nil {
		return 0
	}
	return int32(k)
}

func (c *Checker) checkDeployment(d *deployment) {
	if d == nil || d.DeletionTimestamp != nil || c.ending(d.Namespace) {
		return
	}
	var all, living []*corev1.Pod
	revisions, available, wanted := map[types.UID]bool{}, 0, int32(0)
	for _, rs := range c.sets {
		if rs.deployment != d.UID {
			continue
		}
		wanted += *rs.Spec.Replicas
		running := c.podsOf(rs.UID, func(p *corev1.Pod) bool { return !over(p) })
		if len(running) > 0 {
			revisions[rs.UID] = true
		}
		all = append(all, running...)
		living = append(living, c.podsOf(rs.UID, active)...)
		available += len(c.podsOf(rs.UID, ready))
	}
	if wanted > d.bounds.high {
		c.violated("surge", d.Deployment, living, "its ReplicaSets ask for %d pods, at most %d may be", wanted, d.bounds.high)
	}
	c.checkSurge(d, living)
	if d.bounds.known && available < int(d.bounds.low) {
		c.violated("unavailability", d.Deployment, all, "%d pods are ready, at least %d must be", available, d.bounds.low)
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && len(revisions) > 1 {
		c.violated("recreate", d.Deployment, all, "pods of %d revisions run at once", len(revisions))
	}
}

// checkSurge checks how long there have been too many pods.
func (c *Checker) checkSurge(d *deployment, living []*corev1.Pod) {
	switch {
	case len(living) <= int(d.bounds.high):
		d.since = time.Time{}
		return
	case d.since.IsZero():
		d.since = c.now
	}
	since := d.since
	if since.Before(c.calm) {
		since = c.calm
	}
	if lasts := c.now.Sub(since); lasts > surgePatience {
		c.violated("surge", d.Deployment, living, "%d pods for %s, at most %d may be", len(living), lasts.Round(time.Second), d.bounds.high)
	}
}
