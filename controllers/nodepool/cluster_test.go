package nodepool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/internal/slim"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// old is an age at which a node is no newcomer any more.
const old = 24 * time.Hour

// newNode returns a ready node that is a day old.
func newNode(name string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-old)), Labels: map[string]string{corev1.LabelHostname: name},
		Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0"},
	}}
	for _, l := range labels {
		n.Labels[l] = ""
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-old))}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m")}
	return n
}

// newPool returns a pool that selects nodes by the label of its name.
func newPool(name string, opts ...func(*v1alpha1.NodePoolSpec)) *v1alpha1.NodePool {
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool-" + name: ""}}
	for _, o := range opts {
		o(&p.Spec)
	}
	return p
}

func label(k, v string) func(*v1alpha1.NodePoolSpec) {
	return func(s *v1alpha1.NodePoolSpec) {
		if s.Labels == nil {
			s.Labels = map[string]v1alpha1.LabelValue{}
		}
		s.Labels[k] = v1alpha1.LabelValue(v)
	}
}

func taint(key, value string, effect v1alpha1.TaintEffect, how ...v1alpha1.Propagation) func(*v1alpha1.NodePoolSpec) {
	return func(s *v1alpha1.NodePoolSpec) {
		t := v1alpha1.Taint{Key: key, Value: value, Effect: effect, Propagation: v1alpha1.PropagateAlways}
		if len(how) > 0 {
			t.Propagation = how[0]
		}
		s.Taints = append(s.Taints, t)
	}
}

// lab is an API with the controller at work in it.
type lab struct {
	*kittest.API
	t       *testing.T
	running *kittest.Running
}

func start(t *testing.T, objs ...client.Object) *lab {
	t.Helper()
	return startWith(t, nil, objs...)
}

// startWith starts the controller with flags.
func startWith(t *testing.T, flags []string, objs ...client.Object) *lab {
	t.Helper()
	l := &lab{API: kittest.New(t), t: t}
	l.AddTypes(v1alpha1.AddToScheme, "NodePool")
	l.Slim(slim.Kinds())
	for _, o := range objs {
		l.Create(t, o)
	}
	l.run(flags...)
	return l
}

func (l *lab) run(flags ...string) {
	l.t.Helper()
	d := Descriptor()
	setFlags(l.t, d, flags)
	l.running = l.Run(l.t, d)
	l.rest()
}

// rest waits until all is done, counting included.
func (l *lab) rest() {
	l.t.Helper()
	l.Pass(3 * time.Second)
	l.Settle()
}

func (l *lab) node(name string) *corev1.Node {
	l.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !l.Get(l.t, n) {
		l.t.Fatalf("node %s is gone", name)
	}
	return n
}

func (l *lab) pool(name string) *v1alpha1.NodePool {
	l.t.Helper()
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !l.Get(l.t, p) {
		l.t.Fatalf("NodePool %s is gone", name)
	}
	return p
}

func (l *lab) changeNode(name string, change func(*corev1.Node)) {
	l.t.Helper()
	n := l.node(name)
	change(n)
	l.Update(l.t, n)
}

func (l *lab) changePool(name string, change func(*v1alpha1.NodePoolSpec)) {
	l.t.Helper()
	p := l.pool(name)
	change(&p.Spec)
	p.Generation++
	l.Update(l.t, p)
}

// expectNode fails unless a node has what is said of it: "label k=v", "taint k=v:Effect", and "no " of either.
func (l *lab) expectNode(name string, what ...string) {
	l.t.Helper()
	n := l.node(name)
	var has []string
	for k, v := range n.Labels {
		has = append(has, "label "+k+"="+v, "label "+k)
	}
	for k, v := range n.Annotations {
		has = append(has, "annotation "+k+"="+v, "annotation "+k)
	}
	for _, t := range n.Spec.Taints {
		has = append(has, fmt.Sprintf("taint %s=%s:%s", t.Key, t.Value, t.Effect), "taint "+t.Key)
	}
	for _, w := range what {
		bare, no := strings.CutPrefix(w, "no ")
		if slices.Contains(has, bare) == no {
			l.t.Errorf("node %s: want %s; it has labels %v, annotations %v, taints %v", name, w, n.Labels, n.Annotations, n.Spec.Taints)
		}
	}
}

// nodeWrites returns how often nodes were written since the last time that writes were taken.
func (l *lab) nodeWrites(name string) int {
	n := 0
	for _, w := range l.Writes() {
		if strings.HasPrefix(w, "patch v1/nodes") && (name == "" || strings.HasSuffix(w, " "+name)) {
			n++
		}
	}
	return n
}

// condition returns status and reason of a condition.
func (l *lab) condition(pool, kind string) string {
	l.t.Helper()
	c := meta.FindStatusCondition(l.pool(pool).Status.Conditions, kind)
	if c == nil {
		return "none"
	}
	return string(c.Status) + " " + c.Reason
}

func (l *lab) expectCondition(pool, kind, want string) {
	l.t.Helper()
	if got := l.condition(pool, kind); got != want {
		l.t.Errorf("condition %s of %s is %q, want %q: %+v", kind, pool, got, want, l.pool(pool).Status)
	}
}

func (l *lab) class(name string) *nodev1.RuntimeClass {
	rc := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !l.Get(l.t, rc) {
		return nil
	}
	return rc
}

func bare(n *corev1.Node) string {
	c := n.DeepCopy()
	c.ResourceVersion, c.Generation = "", 0
	return fmt.Sprintf("%v %v %v", c.Labels, c.Annotations, c.Spec.Taints)
}
