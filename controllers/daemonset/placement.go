package daemonset

import (
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"orrery/kit"
)

// verdict says whether a node is eligible for the pods of a DaemonSet.
type verdict struct {
	run  bool // a pod should run there
	stay bool // a pod that is already there may stay
}

// placement decides on which nodes the pods of one template run. It is made once for many nodes, because parsing the
// selectors is expensive.
type placement struct {
	nodeName    string // the only node that the template allows; empty for any
	restricted  bool   // affinity rules some nodes out
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	compare     bool // the comparison operators of tolerations (Gt, Lt) are enabled
}

func newPlacement(spec *corev1.PodSpec, compare bool) *placement {
	return &placement{
		nodeName:    spec.NodeName,
		restricted:  len(spec.NodeSelector) > 0 || spec.Affinity != nil,
		affinity:    nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
		tolerations: tolerationsOf(spec),
		compare:     compare,
	}
}

// judge decides about one node. spec.unschedulable and the conditions of a node matter only through the taints that stand
// for them, most of which every daemon pod tolerates; see daemonTolerations.
func (p *placement) judge(node *corev1.Node) verdict {
	if p.nodeName != "" && p.nodeName != node.Name {
		return verdict{}
	}
	if p.restricted {
		// A term that cannot be parsed matches nothing, as in the scheduler.
		if match, _ := p.affinity.Match(node); !match {
			return verdict{}
		}
	}
	v := verdict{run: true, stay: true}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		keepsOut, drivesOut := taint.Effect == corev1.TaintEffectNoSchedule, taint.Effect == corev1.TaintEffectNoExecute
		if !keepsOut && !drivesOut || p.tolerates(taint) {
			continue
		}
		if v.run = false; drivesOut {
			v.stay = false
			break
		}
	}
	return v
}

func (p *placement) tolerates(taint *corev1.Taint) bool {
	for i := range p.tolerations {
		if p.tolerations[i].ToleratesTaint(klog.Background(), taint, p.compare) {
			return true
		}
	}
	return false
}

// daemonTolerations are the taints that every daemon pod tolerates without a time limit. It has to serve a node in trouble
// too, and an eviction would only be followed by a new pod on the same node.
var daemonTolerations = []struct {
	key    string
	effect corev1.TaintEffect
}{
	{corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute},
	{corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute},
	{corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule},
	{corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule},
	{corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule},
	{corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule},
}

// tolerationsOf returns the tolerations of the pods of a template: its own and those that every daemon pod gets.
func tolerationsOf(spec *corev1.PodSpec) []corev1.Toleration {
	out := make([]corev1.Toleration, len(spec.Tolerations), len(spec.Tolerations)+len(daemonTolerations)+1)
	copy(out, spec.Tolerations)
	for _, t := range daemonTolerations {
		out = withToleration(out, t.key, t.effect)
	}
	if spec.HostNetwork {
		out = withToleration(out, corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return out
}

// withToleration adds a toleration without a time limit, or removes the limit of an existing one.
func withToleration(all []corev1.Toleration, key string, effect corev1.TaintEffect) []corev1.Toleration {
	add := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	found := false
	for i := range all {
		if add.MatchToleration(&all[i]) {
			all[i], found = add, true
		}
	}
	if found {
		return all
	}
	return append(all, add)
}

// placements caches the placement of each DaemonSet until its generation changes.
type placements struct {
	compare bool

	mu    sync.Mutex // guards byKey
	byKey map[kit.Key]cachedPlacement
}

type cachedPlacement struct {
	uid        types.UID
	generation int64
	*placement
}

// of returns the placement of a DaemonSet.
func (p *placements) of(set *appsv1.DaemonSet) *placement {
	key := kit.KeyOf(set)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.byKey[key]; ok && r.uid == set.UID && r.generation == set.Generation {
		return r.placement
	}
	made := newPlacement(&set.Spec.Template.Spec, p.compare)
	if p.byKey == nil {
		p.byKey = map[kit.Key]cachedPlacement{}
	}
	p.byKey[key] = cachedPlacement{set.UID, set.Generation, made}
	return made
}

// forget drops the placement of a deleted DaemonSet.
func (p *placements) forget(key kit.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byKey, key)
}

// sameTaints compares taints, ignoring when they were added.
func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect
	})
}
