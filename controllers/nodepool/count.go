package nodepool

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/merge"
	"orrery/controllers/nodepool/record"
)

const (
	// listed is the limit on the nodes that a status lists, and lines that on the changes listed for each.
	listed = 20
	lines  = 32
)

// census is what was counted over the nodes of a pool.
type census struct {
	nodes, ready, updated, conflicted, failed int
	capacity, allocatable                     v1alpha1.ResourceList
	problems                                  []v1alpha1.ProblemNode // of the failed first, then of the conflicted; by name
	plan                                      []v1alpha1.PlannedNode
	pending                                   int // nodes that would be changed, including those that the plan does not list
	candidates                                []candidate
	malformed                                 bool // at least one record is malformed
}

// count counts the members of a pool, compared with what the pool specifies. A pool that is paused or in mode Audit is counted
// as if it were enforced.
func (r *reconciler) count(k *known, pools []*merge.Pool, now time.Time) census {
	asked := slices.Clone(pools)
	for i, p := range asked {
		if p.UID == k.pool.UID && k.problem == nil {
			asked[i] = p.Enforcing()
		}
	}
	members := slices.DeleteFunc(r.nodes.List(""), func(n *corev1.Node) bool { return !k.pool.Matches(n.Labels) })
	slices.SortFunc(members, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	c := census{capacity: v1alpha1.ResourceList{}, allocatable: v1alpha1.ResourceList{}}
	for _, node := range members {
		c.nodes++
		if ready, _ := readiness(node); ready {
			c.ready++
		}
		add(c.capacity, node.Status.Capacity)
		add(c.allocatable, node.Status.Allocatable)
		r.countNode(&c, k, node, asked, now)
	}
	slices.SortStableFunc(c.problems, func(a, b v1alpha1.ProblemNode) int { return severity(b.Reason) - severity(a.Reason) })
	c.problems = c.problems[:min(len(c.problems), listed)]
	c.plan = c.plan[:min(len(c.plan), listed)]
	return c
}

// Reasons of problem nodes.
const (
	reasonConflict  = "Conflict"
	reasonFlapping  = "Flapping"
	reasonFailed    = "WriteFailed"
	reasonMalformed = "MalformedRecord"
	reasonInvalid   = "InvalidSpec"
)

func severity(reason string) int {
	if reason == reasonFailed || reason == reasonMalformed {
		return 1
	}
	return 0
}

// countNode adds one member to the census.
func (r *reconciler) countNode(c *census, k *known, node *corev1.Node, pools []*merge.Pool, now time.Time) {
	problem := func(reason, message string) {
		c.problems = append(c.problems, v1alpha1.ProblemNode{Name: node.Name, Reason: reason, Message: message})
	}
	rec, err := recordOf(node)
	if err != nil {
		c.failed++
		c.malformed = true
		problem(reasonMalformed, "annotation "+v1alpha1.RecordAnnotation+": "+err.Error()+"; nothing is changed on this node until it is mended or removed")
		return
	}
	v := r.judge(node, rec, pools, now)
	if what := r.ledger.trouble(node.Name); what != "" {
		c.failed++
		problem(reasonFailed, what)
	} else if reason, message := conflictsOf(&v.full, k); reason != "" {
		problem(reason, message)
	}
	if slices.ContainsFunc(v.full.Conflicts, func(f merge.Conflict) bool { return f.Pool == k.pool.UID }) {
		c.conflicted++
	}
	changes := v.full.Of(k.pool.UID)
	if len(changes) == 0 && !flapping(&v.full, k) {
		c.updated++
	}
	if k.pool.Audit && len(changes) > 0 {
		c.pending++
		c.plan = append(c.plan, v1alpha1.PlannedNode{Name: node.Name, Changes: texts(changes[:min(len(changes), lines)])})
	}
	if !k.pool.Audit && !k.pool.Paused {
		c.candidates = append(c.candidates, r.candidate(k, node, &rec, &v.full, now))
	}
}

// candidate returns a member as the rollout sees it.
func (r *reconciler) candidate(k *known, node *corev1.Node, rec *record.Record, out *merge.Outcome, now time.Time) candidate {
	c := candidate{name: node.Name, granted: r.permits.has(k.pool, node.Name)}
	if !fresh(node, rec, k.pool, now) {
		c.need = needOf(out, k.pool.UID)
	}
	own := rec.Find(k.pool.UID)
	if own == nil || own.Hash != k.pool.Hash || own.At.IsZero() {
		return c
	}
	if s := k.pool.Rollout.IntervalSeconds; s > 0 {
		c.until = own.At.Add(time.Duration(s+1) * time.Second) // the record has whole seconds, rounded down
	}
	ready, since := readiness(node)
	c.broken = !ready && since.After(own.At) && since.Sub(own.At) <= max(suspicion, time.Duration(k.pool.Rollout.IntervalSeconds)*time.Second)
	return c
}

// conflictsOf describes which keys of a pool a node has from others.
func conflictsOf(out *merge.Outcome, k *known) (reason, message string) {
	var parts []string
	for _, f := range out.Conflicts {
		if f.Pool != k.pool.UID {
			continue
		}
		if reason == "" || f.Reason == merge.Flapping {
			reason = reasonConflict
			if f.Reason == merge.Flapping {
				reason = reasonFlapping
			}
		}
		parts = append(parts, f.Key.String()+": "+string(f.Reason))
	}
	const most = 8
	if over := len(parts) - most; over > 0 {
		parts = append(parts[:most], "and more")
	}
	return reason, strings.Join(parts, "; ")
}

func flapping(out *merge.Outcome, k *known) bool {
	return slices.ContainsFunc(out.Conflicts, func(f merge.Conflict) bool { return f.Pool == k.pool.UID && f.Reason == merge.Flapping })
}

// readiness reports whether a node is ready, and since when.
func readiness(node *corev1.Node) (ready bool, since time.Time) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, since
}

func add(sum v1alpha1.ResourceList, more corev1.ResourceList) {
	for name, q := range more {
		total, ok := sum[string(name)]
		if !ok {
			total = resource.Quantity{Format: q.Format}
		}
		total.Add(q)
		sum[string(name)] = total
	}
}
