package scenarios

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestConcurrentTaintWriter changes taints of a node 500 times by read and write, as kubectl and cloud controllers do,
// while a pool changes its own taint on the same node: not one change of either is lost.
func TestConcurrentTaintWriter(t *testing.T) {
	t.Parallel()
	e := withPools(t, 1)
	const node, rounds = "node-1", 500
	e.nodePool(t, "busy", `taints: [{key: pool, value: "start", effect: NoSchedule}]`)
	e.label(t, node, "pool-busy=")
	e.carries(t, node, "taint pool=start:NoSchedule")
	stop := make(chan struct{})
	var flipping sync.WaitGroup
	flips := 0
	flipping.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			patch := fmt.Sprintf(`{"spec":{"taints":[{"key":"pool","value":"v%d","effect":"NoSchedule"}]}}`, flips)
			if e.mergePool(t, "busy", patch) == nil {
				flips++
			}
		}
	})
	conflicts := 0
	for round := range rounds {
		conflicts += e.changeTaints(t, node, func(taints []corev1.Taint) []corev1.Taint {
			// Every round checks what the round before has written.
			if got := foreignTaints(taints); round > 0 && !slices.Equal(got, []string{fmt.Sprintf("theirs=r%d", round-1)}) {
				t.Fatalf("round %d: foreign taints are %v", round, got)
			}
			rest := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == "theirs" })
			return append(rest, corev1.Taint{Key: "theirs", Value: fmt.Sprintf("r%d", round), Effect: corev1.TaintEffectNoSchedule})
		})
	}
	close(stop)
	flipping.Wait()
	e.carries(t, node, fmt.Sprintf("taint pool=v%d:NoSchedule", flips-1), fmt.Sprintf("taint theirs=r%d:NoSchedule", rounds-1))
	t.Logf("%d changes of the pool, %d writes by the controller, %d conflicts of the other writer", flips, e.poolWrites(t, node), conflicts)
	if flips < 10 || e.poolWrites(t, node) < 10 {
		t.Errorf("only %d changes of the pool and %d writes: nothing met", flips, e.poolWrites(t, node))
	}
	e.kubectl(t, "delete", "npool", "busy")
	e.carries(t, node, "no taint pool", fmt.Sprintf("taint theirs=r%d:NoSchedule", rounds-1), "no annotation "+poolRecord)
}

func foreignTaints(taints []corev1.Taint) (out []string) {
	for _, t := range taints {
		if t.Key != "pool" {
			out = append(out, t.Key+"="+t.Value)
		}
	}
	return out
}

// changeTaints changes the taints of a node by read and write, again after each conflict, and returns the number of those.
func (e *env) changeTaints(t *testing.T, node string, change func([]corev1.Taint) []corev1.Taint) (conflicts int) {
	t.Helper()
	for {
		n := e.node(t, node)
		data := must(json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": n.ResourceVersion}, "spec": map[string]any{"taints": change(n.Spec.Taints)},
		}))(t)
		_, err := e.Client().CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, data, metav1.PatchOptions{})
		switch {
		case apierrors.IsConflict(err):
			conflicts++
		case err != nil:
			t.Fatal(err)
		default:
			return conflicts
		}
	}
}

func (e *env) mergePool(t *testing.T, name, patch string) error {
	return e.Client().CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/nodes.orrery.dev/v1alpha1/nodepools/" + name).
		Body([]byte(patch)).Do(t.Context()).Error()
}
