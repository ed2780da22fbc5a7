package nodepool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/api/nodes/v1alpha1"
	"orrery/kit"
	"orrery/kit/kittest"
)

// statusWrites counts the writes of the status of pools.
func (l *lab) statusWrites() int {
	n := 0
	for _, w := range l.Writes() {
		if strings.HasPrefix(w, "update nodes.orrery.dev/v1alpha1/nodepools/status") {
			n++
		}
	}
	return n
}

// A pool that cannot be worked with says so, once, and neither its nodes nor its RuntimeClass lose anything.
func TestAPoolThatCannotBeWorkedWithKeepsWhatItHas(t *testing.T) {
	const unreadable = "a number that is too large"
	for name, spoil := range map[string]func(spec map[string]any){
		"a selector that is none": func(spec map[string]any) {
			spec["nodeSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "Like"}}}
		},
		unreadable: func(spec map[string]any) {
			spec["rollout"] = map[string]any{"maxUpdating": int64(3_000_000_000)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := start(t, newNode("a", "pool-gpu"), newPool("gpu", label("team", "ml"), func(s *v1alpha1.NodePoolSpec) {
					s.RuntimeClass, s.DeletionPolicy = &v1alpha1.RuntimeClass{Handler: "nvidia"}, v1alpha1.Retain
				}))
				p := &unstructured.Unstructured{}
				p.SetGroupVersionKind(v1alpha1.NodePoolKind)
				p.SetName("gpu")
				l.Get(t, p)
				good := p.DeepCopy()
				spoil(p.Object["spec"].(map[string]any))
				p.SetGeneration(p.GetGeneration() + 1)
				l.TakeWrites()
				l.Update(t, p)
				l.Pass(10 * time.Minute)
				l.expectNode("a", "label team=ml")
				if l.class("node-pool-gpu") == nil {
					t.Error("the RuntimeClass is gone")
				}
				if n := l.statusWrites(); n > 2 {
					t.Errorf("%d writes of the status", n)
				}
				l.Get(t, p)
				said := map[string]string{}
				conditions, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
				for _, c := range conditions {
					c := c.(map[string]any)
					said[c["type"].(string)] = c["status"].(string) + " " + c["reason"].(string)
				}
				observed, _, _ := unstructured.NestedInt64(p.Object, "status", "observedGeneration")
				if said["Degraded"] != "True InvalidSpec" || said["Ready"] != "False InvalidSpec" || said["NodesUpdated"] != "False InvalidSpec" || said["RuntimeClassReady"] != "False InvalidSpec" || observed != p.GetGeneration() {
					t.Errorf("it says %v for generation %d of %d", said, observed, p.GetGeneration())
				}

				p.Object["spec"] = good.Object["spec"]
				p.SetGeneration(p.GetGeneration() + 1)
				l.Update(t, p)
				l.rest()
				l.expectCondition("gpu", "Ready", "True AsAsked")
				if name == unreadable {
					return // nor can the API in memory patch it
				}
				l.Get(t, p)
				spoil(p.Object["spec"].(map[string]any))
				l.Update(t, p)
				l.rest()
				l.Delete(t, p)
				l.rest()
				l.expectNode("a", "label team=ml", "no annotation "+v1alpha1.RecordAnnotation) // retained
				if l.Get(t, p) {
					t.Error("the pool is still there")
				}
			})
		})
	}
}

// In a new cluster too, a new pool changes the nodes that are there already one after the other.
func TestANewPoolIsARolloutInANewCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := intstr.FromInt32(1)
		young := func(name string) *corev1.Node {
			n := newNode(name, "pool-gpu")
			n.CreationTimestamp = metav1.Now()
			return n
		}
		l := start(t, young("a"), young("b"), young("c"))
		l.Create(t, newPool("gpu", label("team", "ml"), func(s *v1alpha1.NodePoolSpec) {
			s.Rollout = v1alpha1.Rollout{MaxUpdating: &one, IntervalSeconds: 60}
		}))
		l.rest()
		if n := l.nodeWrites(""); n != 1 {
			t.Errorf("%d nodes were changed at once", n)
		}
		l.Create(t, young("late"))
		l.rest()
		l.expectNode("late", "label team=ml")
		l.Pass(5 * time.Minute)
		l.expectNode("c", "label team=ml")
	})
}

// A node that breaks long after it was changed has other reasons, and stops nothing.
func TestANodeThatBreaksMuchLaterStopsNoRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := intstr.FromInt32(1)
		l := start(t, newNode("a", "pool-gpu"), newNode("b"), newPool("gpu", label("team", "ml"), func(s *v1alpha1.NodePoolSpec) { s.Rollout.MaxUpdating = &one }))
		l.expectNode("a", "label team=ml")
		l.Pass(24 * time.Hour)
		l.changeNode("a", func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.Now()
		})
		l.changeNode("b", func(n *corev1.Node) { n.Labels["pool-gpu"] = "" })
		l.rest()
		l.expectNode("b", "label team=ml")
		l.expectCondition("gpu", "NodesUpdated", "True UpToDate")
	})
}

// A dry run stores no finalizer, and shows all the same what it would do to nodes.
func TestADryRunShowsWhatItWouldDoToNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{API: kittest.New(t), t: t}
		l.AddTypes(v1alpha1.AddToScheme, "NodePool")
		l.Create(t, newNode("a", "pool-gpu"))
		l.Create(t, newPool("gpu", label("team", "ml")))
		cc := l.Context(Name, rules()...)
		cc.Client = cc.Client.DryRun()
		cc.Live, cc.DryRun = cc.Client.Live(), kit.NewDryRun()
		l.RunIn(t, cc, Descriptor().Init)
		l.Pass(time.Minute)
		l.expectNode("a", "no label team")
		would := map[string]bool{}
		writes, _, _ := cc.DryRun.Writes()
		for _, w := range writes {
			would[w.Verb+" "+w.Resource+" "+w.Object] = true
		}
		for _, want := range []string{"patch nodepools.nodes.orrery.dev gpu", "patch nodes a", "update nodepools.nodes.orrery.dev/status gpu"} {
			if !would[want] {
				t.Errorf("it would not %s: %v", want, would)
			}
		}
	})
}
