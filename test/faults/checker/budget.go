package checker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budgetPatience is how long a budget may allow too much while there are no faults. The API promises no time; it waits two
// minutes itself for the deletion of an evicted pod.
const budgetPatience = 20 * time.Second

// OnlyEvictions is the label of budgets whose pods are disrupted by nothing but evictions. They must hold at all times.
const OnlyEvictions = "only-evictions"

type budget struct {
	*policyv1.PodDisruptionBudget
	since time.Time // since when it allows too much; zero if it does not
	full  bool      // there were as many ready pods as wanted
}

func (c *Checker) onBudget(o *policyv1.PodDisruptionBudget, gone bool) {
	if gone {
		delete(c.budgets, o.UID)
		return
	}
	b := c.budgets[o.UID]
	if b == nil {
		b = &budget{}
		c.budgets[o.UID] = b
	}
	b.PodDisruptionBudget = o
	c.checkBudget(b)
}

// checkEvictions checks the budgets that a pod belongs to.
func (c *Checker) checkEvictions(p *corev1.Pod) {
	for _, b := range c.budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Labels[OnlyEvictions] == "" || p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		pods, up := c.podsOfBudget(b.PodDisruptionBudget), int32(0)
		for _, q := range pods {
			if ready(q) {
				up++
			}
		}
		wanted := b.Spec.MinAvailable.IntVal
		if b.full = b.full || up >= wanted; b.full && up < wanted {
			c.violated("eviction", b.PodDisruptionBudget, pods, "%d pods are ready, evictions must leave %d", up, wanted)
		}
	}
}

func (c *Checker) checkBudget(b *budget) {
	truth := c.allowed(b.PodDisruptionBudget)
	switch {
	case c.ending(b.Namespace):
		return
	case b.Status.DisruptionsAllowed <= truth:
		b.since = time.Time{}
		return
	case b.since.IsZero():
		b.since = c.now
	}
	since := b.since
	if since.Before(c.calm) {
		since = c.calm
	}
	if d := c.now.Sub(since); d > budgetPatience {
		c.violated("budget", b.PodDisruptionBudget, c.podsOfBudget(b.PodDisruptionBudget), "it has allowed %d for %s, where %d is right", b.Status.DisruptionsAllowed, d.Round(time.Second), truth)
	}
}

func (c *Checker) podsOfBudget(b *policyv1.PodDisruptionBudget) (pods []*corev1.Pod) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	for _, p := range c.loose {
		if p.Namespace == b.Namespace && selector.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	return pods
}

// allowed returns how many of the pods of a budget may be disrupted.
func (c *Checker) allowed(b *policyv1.PodDisruptionBudget) int32 {
	owners := map[types.UID]int32{}
	healthy := int32(0)
	for _, p := range c.podsOfBudget(b) {
		if ref := metav1.GetControllerOf(p); ref != nil {
			if owner, n, ok := c.asked(ref.UID); ok {
				owners[owner] = n
			}
		}
		if _, disrupted := b.Status.DisruptedPods[p.Name]; ready(p) && !disrupted {
			healthy++
		}
	}
	expected := int32(0)
	for _, n := range owners {
		expected += n
	}
	if expected == 0 {
		return 0
	}
	var wanted int32
	switch spec := b.Spec; {
	case spec.MaxUnavailable != nil:
		wanted = max(0, expected-scaled(spec.MaxUnavailable, expected, true))
	case spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int:
		wanted = spec.MinAvailable.IntVal
	default:
		wanted = scaled(spec.MinAvailable, expected, true)
	}
	return max(0, healthy-wanted)
}

// asked returns the object that determines how many pods a controller has, and that number.
func (c *Checker) asked(uid types.UID) (owner types.UID, n int32, ok bool) {
	if rs := c.sets[uid]; rs != nil {
		if d := c.deploys[rs.deployment]; d != nil {
			return d.UID, *d.Spec.Replicas, true
		}
		return uid, *rs.Spec.Replicas, true
	}
	if s := c.stateful[uid]; s != nil {
		return uid, *s.Spec.Replicas, true
	}
	return "", 0, false
}
