package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// nodeProgram lets nodes of its own fail, be tainted and go, with pods on them.
func nodeProgram(r *rand.Rand) program {
	names := []string{"a", "b"}[:1+r.IntN(2)]
	var p program
	// A pod is not evicted about when the next step comes, some three seconds after the last eviction.
	seconds := []int64{1, 20, 300, 1 << 40}
	urgent := chance(r, 3)
	if urgent {
		seconds = []int64{-5, 0}
	}
	for _, name := range names {
		p.steps = append(p.steps, hurried(nodeMade(name, nodeLabels(r))))
	}
	for i := range 4 + r.IntN(5) {
		p.steps = append(p.steps, hurried(created("pods", nodePod(r, fmt.Sprintf("p%d", i), pick(r, names...), seconds))))
	}
	p.steps[len(p.steps)-1].now = false
	for i := range 5 + r.IntN(5) {
		// README, "Nodes and evictions", has pods that wait for the end of their time on a lost node, and come to tolerate
		// another taint for no time: here, nodes with such pods are not lost.
		p.steps = append(p.steps, nodeStep(r, pick(r, names...), i, seconds, urgent))
	}
	return p
}

// hurried lets the next step follow at once, whatever the flags say: nothing that the two have to do with each other is
// decided between them.
func hurried(s step) step {
	s.now = true
	return s
}

func nodeLabels(r *rand.Rand) map[string]string {
	labels := map[string]string{}
	if chance(r, 3) {
		labels[corev1.LabelOSStable] = pick(r, "windows", "")
	}
	if chance(r, 3) {
		labels["beta.kubernetes.io/os"] = "plan9"
	}
	if chance(r, 4) {
		labels["beta.kubernetes.io/arch"] = "mips"
	}
	if chance(r, 4) {
		labels["node.kubernetes.io/exclude-disruption"] = pick(r, "", "true", "false")
	}
	return labels
}

// nodePod is a pod that is bound to a node from the start.
func nodePod(r *rand.Rand, name, node string, seconds []int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t := template(name, pick(r, runs, runs, hang, hang, stay, succeed, fail))
	pod.Labels, pod.Annotations, pod.Spec = t.Labels, t.Annotations, t.Spec
	pod.Spec.NodeName = self + "-" + node
	if chance(r, 3) {
		pod.Finalizers = []string{"parity/keep"}
	}
	for range r.IntN(4) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration(r, seconds))
	}
	return pod
}

var nodeTaints = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, "x", "y", corev1.TaintNodeOutOfService}

func toleration(r *rand.Rand, seconds []int64) corev1.Toleration {
	t := corev1.Toleration{Key: pick(r, nodeTaints...), Operator: pick(r, corev1.TolerationOpExists, corev1.TolerationOpEqual), Effect: pick(r, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, "")}
	if t.Operator == corev1.TolerationOpEqual {
		t.Value = pick(r, "", "1")
	}
	if chance(r, 8) {
		t.Key, t.Value, t.Operator = "", "", corev1.TolerationOpExists
	}
	if t.Effect == corev1.TaintEffectNoExecute && chance(r, 2) {
		t.TolerationSeconds = new(pick(r, seconds...))
	}
	return t
}

func nodeStep(r *rand.Rand, name string, i int, seconds []int64, stays bool) step {
	node := self + "-" + name
	what := r.IntN(16)
	if stays && what >= 2 && what <= 5 {
		what = 0
	}
	switch what {
	case 0, 1:
		return conditioned(node, pick(r, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable), pick(r, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown))
	case 2, 3:
		return reported(node, pick(r, "True", "False", "Unknown"))
	case 4:
		return silenced(node)
	case 5:
		return forgotten(node)
	case 6:
		return replaced(name)
	case 7:
		return woken(node)
	case 8:
		return patched("nodes", node, `{"spec":{"unschedulable":%v}}`, chance(r, 2))
	case 9, 10:
		taint := corev1.Taint{Key: pick(r, "x", "x", "y", corev1.TaintNodeOutOfService), Value: pick(r, "", "1"), Effect: pick(r, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule)}
		return tainted(node, taint.ToString(), func(all []corev1.Taint) []corev1.Taint {
			return append(slices.DeleteFunc(all, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }), taint)
		})
	case 11:
		key := pick(r, nodeTaints...)
		return tainted(node, "without "+key, func(all []corev1.Taint) []corev1.Taint {
			return slices.DeleteFunc(all, func(t corev1.Taint) bool { return t.Key == key })
		})
	case 12:
		return patched("nodes", node, `{"metadata":{"labels":{%q:%s}}}`, pick(r, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch"), pick(r, "null", `""`, `"linux"`, `"arm64"`))
	case 13:
		return waited(20 * time.Second)
	case 14:
		pod := nodePod(r, fmt.Sprintf("late%d", i), name, seconds)
		pod.Annotations[acts] = stay // it may be evicted before or after its kubelet has seen it
		return created("pods", pod)
	default:
		return deleted("pods", fmt.Sprintf("p%d", r.IntN(4)), "")
	}
}

// conditioned is the step in which the kubelet or another agent of a node reports a condition.
func conditioned(node string, condition corev1.NodeConditionType, status corev1.ConditionStatus) step {
	return step{
		text: fmt.Sprintf("%s reports %s %s", node, condition, status),
		do: func(ctx context.Context, s *subject) error {
			now := metav1.Now()
			patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
				Type: condition, Status: status, Reason: "Reported", Message: "it is", LastHeartbeatTime: now, LastTransitionTime: now,
			}}}})
			if err != nil {
				return err
			}
			_, err = s.client.CoreV1().Nodes().Patch(ctx, s.fill(node), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		},
	}
}

// reported is the step from which on a node's kubelet reports Ready with a status.
func reported(node, status string) step {
	return step{
		text: fmt.Sprintf("%s reports Ready %s", node, status),
		do: func(ctx context.Context, s *subject) error {
			return s.annotateNode(ctx, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:null}}}`, readiness, status, acts))
		},
	}
}

// woken is the step in which a kubelet reports again after it was silent.
func woken(node string) step {
	return step{
		text: fmt.Sprintf("%s reports again", node),
		do: func(ctx context.Context, s *subject) error {
			return s.annotateNode(ctx, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, acts))
		},
	}
}

// annotateNode tells a kubelet what to do, and lets it do it.
func (s *subject) annotateNode(ctx context.Context, node, patch string) error {
	changed, err := s.client.CoreV1().Nodes().Patch(ctx, s.fill(node), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err == nil {
		s.beat(ctx, changed)
	}
	return err
}

// silenced is the step in which a kubelet stops to report. It ends when the node is found to be unreachable.
func silenced(node string) step {
	return step{
		text: fmt.Sprintf("%s is silent", node),
		do: func(ctx context.Context, s *subject) error {
			if err := s.patch(ctx, "nodes", node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, acts, stay)); err != nil {
				return err
			}
			return eventually(ctx, s.grace+70*time.Second, func() (bool, error) {
				n, err := s.client.CoreV1().Nodes().Get(ctx, s.fill(node), metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
					return t.Key == corev1.TaintNodeUnreachable && t.Effect == corev1.TaintEffectNoExecute
				}), nil
			})
		},
	}
}

// forgotten is the step in which a node falls silent and loses its conditions. It ends when the manager has set them.
func forgotten(node string) step {
	return step{
		text: node + " is silent and has no conditions",
		do: func(ctx context.Context, s *subject) error {
			if err := s.patch(ctx, "nodes", node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, acts, stay)); err != nil {
				return err
			}
			time.Sleep(time.Second) // a heartbeat that is under way ends
			if err := s.patch(ctx, "nodes", node, `{"status":{"conditions":null}}`, "status"); err != nil {
				return err
			}
			return eventually(ctx, 2*time.Minute, func() (bool, error) {
				n, err := s.client.CoreV1().Nodes().Get(ctx, s.fill(node), metav1.GetOptions{})
				return err == nil && len(n.Status.Conditions) > 0, err
			})
		},
		patience: 90 * time.Second,
	}
}

// replaced is the step in which a node is deleted, and another one of its name joins when the managers have noticed.
func replaced(name string) step {
	return step{
		text: "another node " + name,
		do: func(ctx context.Context, s *subject) error {
			if err := s.delete(ctx, "nodes", self+"-"+name, ""); err != nil {
				return err
			}
			if err := waited(8*time.Second).do(ctx, s); err != nil {
				return err
			}
			return s.createNode(ctx, name, nil, nil)
		},
	}
}

// tainted is the step in which a user changes the taints of a node.
func tainted(node, what string, change func([]corev1.Taint) []corev1.Taint) step {
	return step{
		text: fmt.Sprintf("taints of %s: %s", node, what),
		do: func(ctx context.Context, s *subject) error {
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				n, err := s.client.CoreV1().Nodes().Get(ctx, s.fill(node), metav1.GetOptions{})
				if err != nil {
					return err
				}
				n.Spec.Taints = change(n.Spec.Taints)
				_, err = s.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
				return err
			})
		},
	}
}

// waited is the step in which nothing is done for a time.
func waited(d time.Duration) step {
	return step{
		text: fmt.Sprintf("wait for %s", d),
		do: func(ctx context.Context, _ *subject) error {
			select {
			case <-ctx.Done():
			case <-time.After(d):
			}
			return nil
		},
	}
}
