package merge

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/record"
)

// Pool is what a NodePool specifies for its nodes, prepared for merging. It is immutable.
type Pool struct {
	Name     string
	UID      types.UID
	Priority int32
	Created  time.Time
	Selector labels.Selector

	// Values are the keys of members; OnJoin are the taints that a node gets only once, when it becomes a member.
	Values map[record.Key]string
	OnJoin []corev1.Taint
	// Hash identifies Values and OnJoin.
	Hash string

	// Skip leaves keys alone that somebody else has set to another value.
	Skip bool
	// Retain leaves nodes as they are when the pool is being deleted.
	Retain bool
	// Audit and Paused pools change nothing, and what they own is not touched. The start-up taint waits for a paused pool,
	// but not for one in mode Audit.
	Audit, Paused bool
	// Deleting pools give up what they own.
	Deleting bool
	// Rollout bounds how many nodes are changed at a time.
	Rollout v1alpha1.Rollout
}

// NewPool returns what a NodePool specifies. If the selector is invalid, it returns an error together with a pool that matches
// nothing and is paused, so that its nodes stay as they are.
func NewPool(p *v1alpha1.NodePool) (*Pool, error) {
	s := &p.Spec
	out := &Pool{
		Name: p.Name, UID: p.UID, Priority: s.Priority, Created: p.CreationTimestamp.Time, Values: map[record.Key]string{},
		Skip: s.ExistingKeys == v1alpha1.Skip, Retain: s.DeletionPolicy == v1alpha1.Retain,
		Audit: s.Mode == v1alpha1.Audit, Deleting: p.DeletionTimestamp != nil, Rollout: s.Rollout,
		// Without the finalizer, a deletion would leave behind what has been written.
		Paused: s.Paused || p.DeletionTimestamp == nil && !slices.Contains(p.Finalizers, v1alpha1.CleanupFinalizer),
	}
	for k, v := range s.Labels {
		out.Values[record.Key{Kind: record.Label, Name: k}] = string(v)
	}
	if s.NodeRole != "" {
		out.Values[record.Key{Kind: record.Label, Name: v1alpha1.NodeRolePrefix + s.NodeRole}] = ""
	}
	for k, v := range s.Annotations {
		out.Values[record.Key{Kind: record.Annotation, Name: k}] = string(v)
	}
	for _, t := range s.Taints {
		taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		if t.Propagation == v1alpha1.PropagateOnJoin {
			out.OnJoin = append(out.OnJoin, taint)
		} else {
			out.Values[record.TaintKey(taint)] = t.Value
		}
	}
	out.Hash = out.hash()
	selector := p.Selector()
	err := error(nil)
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		err = fmt.Errorf("spec.nodeSelector: must not be empty")
	} else if out.Selector, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		err = fmt.Errorf("spec.nodeSelector: %w", err)
	}
	if err != nil {
		out.Selector, out.Paused = labels.Nothing(), true
	}
	return out, err
}

// hash returns eight hexadecimal digits that identify Values and OnJoin.
func (p *Pool) hash() string {
	var lines []string
	for k, v := range p.Values {
		lines = append(lines, k.String()+"="+v)
	}
	for _, t := range p.OnJoin {
		lines = append(lines, "once "+record.TaintKey(t).String()+"="+t.Value)
	}
	slices.Sort(lines)
	data, _ := json.Marshal(lines)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}

// frozen reports whether the pool changes nothing.
func (p *Pool) frozen() bool { return !p.Deleting && (p.Audit || p.Paused) }

// Matches reports whether a node with these labels is a member.
func (p *Pool) Matches(nodeLabels map[string]string) bool {
	return !p.Deleting && p.Selector.Matches(labels.Set(nodeLabels))
}

// Enforcing returns the pool as if it were neither paused nor in mode Audit.
func (p *Pool) Enforcing() *Pool {
	next := *p
	next.Audit, next.Paused = false, false
	return &next
}

// ByPrecedence orders pools: higher priority first, then older, then by name.
func ByPrecedence(a, b *Pool) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
