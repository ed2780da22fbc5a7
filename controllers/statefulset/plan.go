package statefulset

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/internal/podctl"
)

// burst is how many pods of a parallel set one reconcile creates at most; the rest follows once the cache shows these.
const burst = 500

// task is what is to be done for one ordinal; a task without a pod is to create it.
type task struct {
	member
	claims claimWork
	remove bool // the pod has finished and is in the way of its successor
	supply bool // the pod waits for its claims
	repair bool // the pod lacks its label or claims
	reown  bool // the owners of its claims are not those that the policy asks for
	stuck  bool // bound to fail as things are, for a reason that concerns no other ordinal
}

func (t task) none() bool {
	return t.pod != nil && !t.remove && !t.supply && !t.repair && !t.reown
}

// The kinds of tasks, in the order in which they are performed.
const (
	ofPods  = iota // for pods that exist
	missing        // pods to be created
	stuck          // whatever is bound to fail
)

func (t task) kind() int {
	switch {
	case t.stuck:
		return stuck
	case t.pod == nil:
		return missing
	}
	return ofPods
}

// plan is what one reconcile does, in this order.
type plan struct {
	recreate []member // pods of old revisions, which all have to be gone before anything else
	tasks    []task   // for the set's ordinals, of each kind the lowest first
	handOver []task   // for condemned pods whose claims get other owners
	condemn  []member // pods to delete because their ordinals no longer belong to the set
	update   []member // pods to delete because they are outdated

	// progress, if not empty, is the message of a condition: the update that replaces all pods at once is under way.
	progress string
}

// plan decides what to do. Nothing is done for a set that is being deleted.
func (s *state) plan() (p plan) {
	if s.set.DeletionTimestamp != nil {
		return p
	}
	if s.set.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType && s.planRecreation(&p) {
		return p
	}
	settled := s.planReplicas(&p)
	slices.SortStableFunc(p.tasks, func(a, b task) int { return cmp.Compare(a.kind(), b.kind()) })
	if !settled {
		return p
	}
	for _, m := range s.condemned {
		if w := s.claimsOf(m); len(w.reown) > 0 {
			p.handOver = append(p.handOver, task{member: m, claims: w, reown: true})
		}
	}
	p.condemn = s.planScaleDown()
	switch s.set.Spec.UpdateStrategy.Type {
	case appsv1.OnDeleteStatefulSetStrategyType, appsv1.RecreateStatefulSetStrategyType:
		return p
	}
	if !s.ordered() || len(s.condemned) == 0 {
		p.update = s.planUpdate()
	}
	return p
}

// planReplicas goes through the set's ordinals, with or without a pod. settled is false where an ordered set has to wait
// before it does anything else.
func (s *state) planReplicas(p *plan) (settled bool) {
	next, room := s.first, burst
	if s.ordered() {
		room = 1
	}
	for _, m := range s.replicas {
		if !s.fill(p, next, m.ordinal, &room) {
			return false
		}
		t, more := s.tend(m)
		if !t.none() {
			p.tasks = append(p.tasks, t)
		}
		if !more {
			return false
		}
		next = m.ordinal + 1
	}
	return s.fill(p, next, s.end, &room)
}

// fill plans the missing pods of the ordinals between two. An ordered set is done for now with the first of them.
func (s *state) fill(p *plan, from, to int, room *int) (more bool) {
	for ordinal := from; ordinal < to && *room > 0 && !s.closing; ordinal++ {
		t := task{member: member{ordinal: ordinal}}
		if t.claims = s.claimsOf(t.member); !t.claims.stale {
			t.stuck = len(t.claims.going) > 0 || s.taken(podName(s.set.Name, ordinal))
			p.tasks = append(p.tasks, t)
			if !t.stuck {
				*room--
			}
		}
		if s.ordered() {
			return false
		}
	}
	return from >= to || !s.ordered()
}

// tend decides what a pod needs. more is false where an ordered set has to wait for it.
func (s *state) tend(m member) (t task, more bool) {
	t.member = m
	if podctl.Finished(m.pod) {
		// Whatever the exit code says: pods that were evicted or stopped by a reboot of their node may count as succeeded, too.
		t.remove = !going(m.pod)
		return t, !s.ordered()
	}
	t.claims = s.claimsOf(m)
	if m.pod.Status.Phase == corev1.PodPending {
		t.supply = len(t.claims.create)+len(t.claims.going)+len(t.claims.reown)+len(t.claims.conflicts) > 0
		t.stuck = len(t.claims.going) > 0
	}
	if s.ordered() && (going(m.pod) || !working(m.pod) || !s.available(m.pod)) {
		return t, false
	}
	t.stuck = t.stuck || !stored(s.set, m.pod, m.ordinal) // the server refuses to change a pod's volumes
	t.repair = !identified(m.pod) || !stored(s.set, m.pod, m.ordinal)
	t.reown = !t.supply && len(t.claims.reown) > 0
	return t, true
}

// planScaleDown returns the pods to delete because their ordinals no longer belong to the set. An ordered set deletes the
// highest one once it is available, or if it is the only one that is not, or if it has finished and never will be.
func (s *state) planScaleDown() (out []member) {
	if !s.ordered() {
		for _, m := range s.condemned {
			if !going(m.pod) {
				out = append(out, m)
			}
		}
		return out
	}
	if len(s.condemned) == 0 || going(s.condemned[0].pod) {
		return nil
	}
	highest := s.condemned[0]
	if working(highest.pod) && s.available(highest.pod) || podctl.Finished(highest.pod) {
		return []member{highest}
	}
	for _, lower := range s.condemned[1:] {
		if !s.serving(lower.pod) {
			return nil
		}
	}
	return []member{highest}
}
