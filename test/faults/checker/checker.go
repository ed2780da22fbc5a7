package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event is a change of one object.
type Event struct {
	// At is when the change was seen.
	At time.Time
	// Gone says that the object was removed; Object is its last state then.
	Gone bool
	// Listed says that changes may have been missed: the object was found, or found
	// missing, by a list.
	Listed bool
	// Object is the object after the change: one of the kinds that have rules, a
	// ReplicaSet or a Pod.
	Object metav1.Object
}

// Violation is a violation of a rule.
type Violation struct {
	At     time.Time
	Rule   string
	Object string // kind, namespace and name
	What   string
	// History is the earlier changes of the object and of its pods or Jobs.
	History []string
}

// String returns the violation with its history, on several lines.
func (v Violation) String() string {
	return fmt.Sprintf("%s VIOLATION %s: %s: %s\n    %s", v.At.Format(clock), v.Rule, v.Object, v.What, strings.Join(v.History, "\n    "))
}

const clock = "15:04:05.000"

// Checker follows a cluster. It is not safe for concurrent use.
type Checker struct {
	violations []Violation
	told       map[string]bool // rules and objects of violations: each is told once
	histories  map[types.UID]*history
	now        time.Time
	calm       time.Time // since when nothing disturbs the controllers

	pods       map[types.UID]map[types.UID]*corev1.Pod // by controller
	loose      map[types.UID]*corev1.Pod               // all pods
	sets       map[types.UID]*replicaSet
	deploys    map[types.UID]*deployment
	stateful   map[types.UID]*statefulSet
	daemons    map[types.UID]*daemonSet
	jobs       map[types.UID]*job
	cronJobs   map[types.UID]*cronJob
	budgets    map[types.UID]*budget
	departed   map[types.UID][]types.UID // the last pods of each controller that are gone
	podsTotal  int
	eventTotal int

	things
	network
	nodes    map[string]*node // by name
	lost     int              // nodes
	evicted  int              // pods, from them
	nodeless int              // pods that were removed with their node
}

// New returns a checker without any history.
func New() *Checker {
	return &Checker{
		told: map[string]bool{}, histories: map[types.UID]*history{},
		pods: map[types.UID]map[types.UID]*corev1.Pod{}, loose: map[types.UID]*corev1.Pod{}, departed: map[types.UID][]types.UID{},
		sets: map[types.UID]*replicaSet{}, deploys: map[types.UID]*deployment{}, stateful: map[types.UID]*statefulSet{},
		daemons: map[types.UID]*daemonSet{}, jobs: map[types.UID]*job{}, cronJobs: map[types.UID]*cronJob{}, budgets: map[types.UID]*budget{},
		things: newThings(), network: newNetwork(), nodes: map[string]*node{},
	}
}

// Take returns the violations found since the last call.
func (c *Checker) Take() []Violation {
	out := c.violations
	c.violations = nil
	return out
}

// Summary returns how much was checked.
func (c *Checker) Summary() string {
	var slots, finished int
	for _, cj := range c.cronJobs {
		slots += len(cj.slots)
	}
	for _, j := range c.jobs {
		if j.ended {
			finished++
		}
	}
	return fmt.Sprintf("%d changes of %d pods, %d ReplicaSets, %d Deployments, %d StatefulSets, %d DaemonSets, %d Jobs (%d ended), %d CronJobs (%d slots), %d PodDisruptionBudgets, %d things collected, %d orphans, %d namespaces vanished, %d Services, %d nodes lost, %d evictions, %d pods of no node",
		c.eventTotal, c.podsTotal, len(c.sets), len(c.deploys), len(c.stateful), len(c.daemons), len(c.jobs), finished, len(c.cronJobs), slots, len(c.budgets), c.collected, len(c.orphans), c.vanished, len(c.services), c.lost, c.evicted, c.nodeless)
}

// Unsettled names the objects that are not in the state that they must reach once nothing changes any more.
func (c *Checker) Unsettled() (names []string) {
	for _, rs := range c.sets {
		if n := len(c.podsOf(rs.UID, exists)); n != int(*rs.Spec.Replicas) || int(rs.Status.ReadyReplicas) != n {
			names = append(names, name(rs.ReplicaSet))
		}
	}
	for _, d := range c.deploys {
		if n, s := *d.Spec.Replicas, d.Status; s.ObservedGeneration < d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			names = append(names, name(d.Deployment))
		}
	}
	for _, o := range c.stateful {
		if n, s := *o.Spec.Replicas, o.Status; s.ObservedGeneration < o.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.ReadyReplicas != n || s.CurrentRevision != s.UpdateRevision || len(c.podsOf(o.UID, ready)) != int(n) {
			names = append(names, name(o.StatefulSet))
		}
	}
	for _, d := range c.daemons {
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedNumberScheduled != s.DesiredNumberScheduled || s.NumberAvailable != s.DesiredNumberScheduled || len(c.podsOf(d.UID, ready)) != int(s.DesiredNumberScheduled) {
			names = append(names, name(d.DaemonSet))
		}
	}
	for _, j := range c.jobs {
		if !j.gone && !j.ended || len(c.podsOf(j.UID, tracked)) > 0 {
			names = append(names, name(j.Job))
		}
	}
	for _, cj := range c.cronJobs {
		if !cj.gone && len(cj.Status.Active) > 0 {
			names = append(names, name(cj.CronJob))
		}
	}
	for _, b := range c.budgets {
		if b.Status.DisruptionsAllowed != c.allowed(b.PodDisruptionBudget) {
			names = append(names, name(b.PodDisruptionBudget))
		}
	}
	names = append(names, slices.Concat(c.unsettledThings(), c.unsettledServices(), c.unsettledNodes())...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Show returns the history of the objects with these names, which are as returned by Unsettled.
func (c *Checker) Show(names []string) (lines []string) {
	for _, h := range c.histories {
		for _, n := range names {
			if len(h.lines) > 0 && strings.Contains(h.lines[0], " "+n+" @") {
				lines = append(lines, h.lines[max(0, len(h.lines)-8):]...)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// Disturbed says that the controllers could not do their work until some time, so
// that they are not to blame for what takes too long.
func (c *Checker) Disturbed(until time.Time) {
	if until.After(c.calm) {
		c.calm = until
	}
}

// Apply adds a change and checks the rules that it may violate.
func (c *Checker) Apply(e Event) {
	c.eventTotal++
	c.now = e.At
	c.remember(e)
	if e.Listed {
		c.lists++
	}
	c.onThing(e)
	switch o := e.Object.(type) {
	case *corev1.Pod:
		c.onEvicted(o, c.loose[o.UID], e)
		c.notePod(o, c.loose[o.UID] == nil, e.Gone, e.Listed)
		c.onPod(o, e.Gone)
	case *appsv1.ReplicaSet:
		c.onReplicaSet(o, e.Gone)
	case *appsv1.Deployment:
		c.onDeployment(o, e.Gone)
	case *appsv1.StatefulSet:
		c.onStatefulSet(o, e.Gone)
	case *appsv1.DaemonSet:
		c.onDaemonSet(o, e.Gone)
	case *batchv1.Job:
		c.onJob(o, e.Gone)
	case *batchv1.CronJob:
		c.onCronJob(o, e.Gone)
	case *policyv1.PodDisruptionBudget:
		c.onBudget(o, e.Gone)
	case *corev1.Service:
		c.onService(o, e.Gone)
	case *discoveryv1.EndpointSlice:
		c.onSlice(o, e.Gone)
	case *corev1.Node:
		c.onNode(e, o)
	case *coordinationv1.Lease:
		c.onLease(o)
	}
}

// Tick advances the time and checks the rules about states that must not last.
func (c *Checker) Tick(now time.Time) {
	c.now = now
	for _, b := range c.budgets {
		c.checkBudget(b)
	}
	for _, d := range c.deploys {
		c.checkDeployment(d)
	}
	for _, j := range c.jobs {
		c.checkLeftFinalizers(j)
	}
}

// onPod records a pod and checks its controller.
func (c *Checker) onPod(p *corev1.Pod, gone bool) {
	var owner types.UID
	if ref := metav1.GetControllerOf(p); ref != nil {
		owner = ref.UID
	}
	was := c.loose[p.UID]
	if was == nil {
		c.podsTotal++
	} else if ref := metav1.GetControllerOf(was); ref != nil && ref.UID != owner {
		delete(c.pods[ref.UID], p.UID)
	}
	if gone {
		delete(c.loose, p.UID)
		delete(c.pods[owner], p.UID)
		if c.departed[owner] = append(c.departed[owner], p.UID); len(c.departed[owner]) > departedShown {
			c.departed[owner] = c.departed[owner][1:]
		}
	} else {
		c.loose[p.UID] = p
		if owner != "" {
			if c.pods[owner] == nil {
				c.pods[owner] = map[types.UID]*corev1.Pod{}
			}
			c.pods[owner][p.UID] = p
		}
	}
	if rs := c.sets[owner]; rs != nil {
		c.checkReplicaSet(rs)
		c.checkDeployment(c.deploys[rs.deployment])
	}
	if s := c.stateful[owner]; s != nil {
		c.checkStatefulSet(s, p, was == nil && !gone)
	}
	if d := c.daemons[owner]; d != nil {
		c.checkDaemonSet(d)
	}
	if j := c.jobs[owner]; j != nil {
		c.onJobPod(j, p, was == nil && !gone)
	}
	c.checkEvictions(p)
}

// violated records a violation, once for each object and time without faults.
func (c *Checker) violated(rule string, o metav1.Object, others []*corev1.Pod, format string, args ...any) {
	key := rule + "/" + string(o.GetUID())
	if c.told[key] {
		return
	}
	c.told[key] = true
	v := Violation{At: c.now, Rule: rule, Object: name(o), What: fmt.Sprintf(format, args...), History: c.historyOf(o.GetUID())}
	shown := map[types.UID]bool{o.GetUID(): true}
	for _, uid := range c.around(o.GetUID(), others) {
		if !shown[uid] {
			shown[uid] = true
			v.History = append(v.History, c.historyOf(uid)...)
		}
	}
	slices.Sort(v.History)
	c.violations = append(c.violations, v)
}

// departedShown is how many of the removed pods are shown with a violation.
const departedShown = 6

// around returns the objects to show with a violation: the pods, including the last removed ones, and the ReplicaSets of a
// Deployment.
func (c *Checker) around(uid types.UID, pods []*corev1.Pod) []types.UID {
	out := slices.Clone(c.departed[uid])
	for _, p := range pods {
		out = append(out, p.UID)
	}
	for _, rs := range c.sets {
		if rs.deployment == uid {
			out = append(append(out, rs.UID), c.departed[rs.UID]...)
		}
	}
	return out
}

// podsOf returns the pods of a controller that pass a test, sorted by name.
func (c *Checker) podsOf(owner types.UID, test func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range c.pods[owner] {
		if test(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func exists(*corev1.Pod) bool { return true }

// active reports whether a pod runs or will run, and is not being deleted.
func active(p *corev1.Pod) bool { return !over(p) && p.DeletionTimestamp == nil }

func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func ready(p *corev1.Pod) bool {
	if !active(p) {
		return false
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}

// envelope is the range of a number, from the smallest to the largest that was desired since the object was last settled.
type envelope struct {
	low, high int32
	known     bool // was settled once: before that there is no lower bound
	begun     bool
}

func (e *envelope) note(settled bool, low, high int32) {
	switch {
	case settled:
		e.low, e.high, e.known, e.begun = low, high, true, true
	case !e.begun:
		e.low, e.high, e.begun = low, high, true
	default:
		e.low, e.high = min(e.low, low), max(e.high, high)
	}
}
