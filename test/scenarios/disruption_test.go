package scenarios

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"orrery/hack/localcluster/cluster"
)

// widgetKinds are two custom kinds of owners, of which Widgets can be scaled and Trinkets cannot.
const widgetKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trinkets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Trinket, listKind: TrinketList, plural: trinkets, singular: trinket}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// budget describes a disruption budget over the pods of an app.
func budget(name, app, minAvailable, maxUnavailable string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	if minAvailable != "" {
		n := intstr.Parse(minAvailable)
		b.Spec.MinAvailable = &n
	}
	if maxUnavailable != "" {
		n := intstr.Parse(maxUnavailable)
		b.Spec.MaxUnavailable = &n
	}
	return b
}

func (e *env) guard(t *testing.T, namespace string, budgets ...*policyv1.PodDisruptionBudget) {
	t.Helper()
	for _, b := range budgets {
		must(e.Client().PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), b, metav1.CreateOptions{}))(t)
	}
}

// allows formats a budget's status.
func allows(b *policyv1.PodDisruptionBudget) string {
	s := b.Status
	text := fmt.Sprintf("%d of %d/%d/%d", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods)
	if s.ObservedGeneration != b.Generation {
		text += fmt.Sprintf(" (generation %d of %d)", s.ObservedGeneration, b.Generation)
	}
	for _, c := range s.Conditions {
		text += fmt.Sprintf(" %s=%s %s", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			text += ": " + c.Message
		}
		if c.ObservedGeneration != s.ObservedGeneration {
			text += " (another generation)"
		}
	}
	return text
}

// guarded is nil once the budgets of a namespace have the wanted status.
func (e *env) guarded(t *testing.T, namespace string, want map[string]string) error {
	t.Helper()
	got := map[string]string{}
	for _, b := range must(e.Client().PolicyV1().PodDisruptionBudgets(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		got[b.Name] = allows(&b)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			errs = append(errs, fmt.Errorf("%s allows %s\nwant %s", name, got[name], want[name]))
		}
	}
	return errors.Join(append(errs, differ("number of budgets", len(got), len(want)))...)
}

// custom makes an object of a custom kind, and n pods that it controls.
func (e *env) custom(t *testing.T, namespace, kind, name string, replicas int64, n int) {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: strings.ToLower(kind) + "s"}
	client := must(dynamic.NewForConfig(e.RESTConfig()))(t).Resource(resource).Namespace(namespace)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": replicas}}}
	eventually(t, kind+" made", func() (err error) {
		made, err := client.Create(t.Context(), o, metav1.CreateOptions{})
		if err == nil {
			o = made
		}
		return err
	})
	yes := true
	owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: kind, Name: name, UID: o.GetUID(), Controller: &yes}
	for i := range n {
		e.barePod(t, namespace, fmt.Sprint(name, "-", i), name, owner)
	}
}

func (e *env) barePod(t *testing.T, namespace, name, app string, owners ...metav1.OwnerReference) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}, OwnerReferences: owners}, Spec: podSpec("fake:1")}
	must(e.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

// allReady waits until n pods of a namespace are ready, and there are no others.
func (e *env) allReady(t *testing.T, namespace string, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " ready pods in ", namespace), func() error {
		ready := 0
		pods := must(e.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items
		for i := range pods {
			if podCondition(&pods[i], corev1.PodReady) == corev1.ConditionTrue {
				ready++
			}
		}
		return errors.Join(differ("pods", len(pods), n), differ("ready pods", ready, n))
	})
}

// TestBudgets requires the same of both controller managers: the status of budgets for owners of all kinds, and events.
func TestBudgets(t *testing.T) {
	own(t, "changes the controller manager")
	for _, kind := range []cluster.ManagerKind{cluster.Upstream, cluster.Orrery} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			budgetsOf(t, withWidgets(t, kind))
		})
	}
}

// withWidgets starts a cluster with both custom kinds. They exist before the controller manager starts:
// kube-controller-manager takes half a minute to discover new kinds, and does not retry by itself then.
func withWidgets(t *testing.T, kind cluster.ManagerKind) *env {
	t.Helper()
	e := start(t, cluster.Options{Nodes: 3, Untaint: true})
	e.apply(t, widgetKinds)
	e.kubectl(t, "wait", "--for=condition=Established", "crd/widgets.example.com", "crd/trinkets.example.com", "--timeout=2m")
	e.manage(t, kind, raised...)
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	return e
}

func budgetsOf(t *testing.T, e *env) {
	ns, all := e.namespace(t, "budgets"), e.namespace(t, "all")
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}))(t)
	must(e.Client().AppsV1().ReplicaSets(ns).Create(t.Context(), replicaSet("solo", 4), metav1.CreateOptions{}))(t)
	must(e.Client().CoreV1().ReplicationControllers(ns).Create(t.Context(), replicationController("old", 2), metav1.CreateOptions{}))(t)
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), deployment("twice", 2), metav1.CreateOptions{}))(t)
	must(e.Client().AppsV1().Deployments(all).Create(t.Context(), deployment("web", 2), metav1.CreateOptions{}))(t)
	e.barePod(t, all, "bare", "bare")
	e.barePod(t, ns, "bare-0", "bare")
	e.barePod(t, ns, "bare-1", "bare")
	e.custom(t, ns, "Widget", "widget", 5, 4)
	e.custom(t, ns, "Trinket", "trinket", 2, 2)
	e.allReady(t, ns, 3+4+2+2+2+4+2)
	e.allReady(t, all, 3)
	e.strand(t, ns, "bare-1")

	everything, nothing := budget("everything", "", "2", ""), budget("nothing", "", "1", "")
	everything.Spec.Selector, nothing.Spec.Selector = &metav1.LabelSelector{}, nil
	e.guard(t, all, everything, nothing)
	e.guard(t, ns,
		budget("web-whole", "web", "2", ""), budget("solo-share", "solo", "60%", ""), budget("solo-most", "none", "", "30%"),
		budget("old-share", "old", "", "50%"), budget("bare-most", "bare", "", "1"), budget("widget-most", "widget", "", "2"),
		budget("trinket-most", "trinket", "", "1"), budget("twice-a", "twice", "1", ""), budget("twice-b", "twice", "", "1"))
	sufficient, insufficient := " DisruptionAllowed=True SufficientPods", " DisruptionAllowed=False InsufficientPods"
	eventually(t, "budgets of all", func() error {
		return e.guarded(t, all, map[string]string{"everything": "1 of 3/2/3" + sufficient, "nothing": "0 of 0/1/0" + insufficient})
	})
	want := map[string]string{
		"web-whole": "1 of 3/2/3" + sufficient, "solo-share": "1 of 4/3/4" + sufficient, "solo-most": "0 of 0/0/0" + insufficient,
		"old-share": "1 of 2/1/2" + sufficient, "bare-most": "0 of 2/0/0" + insufficient, "widget-most": "1 of 4/3/5" + sufficient,
		"trinket-most": "0 of 0/0/0 (generation 0 of 1) DisruptionAllowed=False SyncFailed: trinkets.example.com does not implement the scale subresource",
		"twice-a":      "1 of 2/1/2" + sufficient, "twice-b": "1 of 2/1/2" + sufficient,
	}
	eventually(t, "budgets", func() error { return e.guarded(t, ns, want) })

	e.kubectl(t, "-n", ns, "scale", "deployment/twice", "--replicas=3")
	e.kubectl(t, "-n", ns, "scale", "deployment/web", "--replicas=2")
	e.kubectl(t, "-n", ns, "patch", "pdb", "trinket-most", "--type=json", "-p", `[{"op":"remove","path":"/spec/maxUnavailable"},{"op":"add","path":"/spec/minAvailable","value":1}]`)
	want["trinket-most"] = "1 of 2/1/2" + sufficient
	want["web-whole"] = "0 of 2/2/2" + insufficient
	want["twice-a"], want["twice-b"] = "2 of 3/1/3"+sufficient, "1 of 3/2/3"+sufficient
	eventually(t, "budgets after changes", func() error {
		_ = e.touchTwice(t, ns)
		return e.guarded(t, ns, want)
	})
	eventually(t, "the stale condition is cleared", func() error { return e.unstranded(t, ns, "bare-1") })
	eventually(t, "events", func() error { return e.told(t, ns, all) })
}

// touchTwice changes both budgets of the pod that has two: after a change of the pod, kube-controller-manager updates only one
// of them.
func (e *env) touchTwice(t *testing.T, ns string) error {
	for _, b := range []string{"twice-a", "twice-b"} {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, time.Now().UnixNano())
		if _, err := e.Client().PolicyV1().PodDisruptionBudgets(ns).Patch(t.Context(), b, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// strand marks a pod as about to be evicted long ago.
func (e *env) strand(t *testing.T, namespace, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI","message":"Eviction API: evicting","lastTransitionTime":%q}]}}`,
		time.Now().Add(-2*time.Minute).Add(2*time.Second).UTC().Format(time.RFC3339))
	must(e.Client().CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))(t)
}

func (e *env) unstranded(t *testing.T, namespace, name string) error {
	pod := must(e.Client().CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			fresh := time.Since(c.LastTransitionTime.Time) < time.Minute
			c.LastTransitionTime = metav1.Time{}
			return errors.Join(differ("changed just now", fresh, true),
				differ("condition", c, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation}))
		}
	}
	return errors.New("the condition is gone")
}

var podNames = regexp.MustCompile(`-[a-z0-9]{5,10}-[a-z0-9]{5}|Chose "[^"]*"`)

// told is nil once the events are the wanted ones: each message once, without generated names.
func (e *env) told(t *testing.T, namespaces ...string) error {
	selector := func(what, app string) string {
		return fmt.Sprintf("Warning UnmanagedPods %s: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: %s,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.", what, app)
	}
	want := []string{
		"Normal NoPods budgets/solo-most: No matching pods found",
		"Normal NoPods all/nothing: No matching pods found",
		"Warning CalculateExpectedPodCountFailed budgets/trinket-most: Failed to calculate the number of expected pods: trinkets.example.com does not implement the scale subresource",
		selector("budgets/bare-most", "bare"),
		`Warning MultiplePodDisruptionBudgets budgets/twice: Pod "budgets"/"twice" matches multiple PodDisruptionBudgets.  `,
	}
	var got []string
	for _, ns := range namespaces {
		for _, ev := range must(e.Client().CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "source=controllermanager"}))(t).Items {
			text := fmt.Sprintf("%s %s %s/%s: %s", ev.Type, ev.Reason, ev.InvolvedObject.Namespace, ev.InvolvedObject.Name, strings.TrimSuffix(ev.Message, " arbitrarily."))
			got = append(got, podNames.ReplaceAllString(text, ""))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	return differ("events", strings.Join(slices.Compact(got), "\n"), strings.Join(want, "\n"))
}

func replicationController(name string, replicas int32) *corev1.ReplicationController {
	d := deployment(name, replicas)
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ReplicationControllerSpec{Replicas: &replicas, Selector: d.Spec.Selector.MatchLabels, Template: &d.Spec.Template},
	}
}

// TestConcurrentEvictions has many clients request evictions at once for some time: there are never fewer healthy pods than
// the budget requires.
func TestConcurrentEvictions(t *testing.T) {
	t.Parallel()
	const replicas, clients, least = 20, 8, 18
	e := anywhere(t, 3)
	ns := e.namespace(t, "evict")
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), deployment("web", replicas), metav1.CreateOptions{}))(t)
	eventually(t, "rollout", func() error { return e.rolledOut(t, ns, "web", replicas) })
	e.guard(t, ns, budget("web", "web", "", "10%"))
	eventually(t, "budget", func() error {
		return e.guarded(t, ns, map[string]string{"web": fmt.Sprintf("2 of 20/%d/20 DisruptionAllowed=True SufficientPods", least)})
	})
	watching, stopWatching := context.WithCancel(t.Context())
	lowest := e.healthyPods(t, watching, ns, replicas)
	var evicted, refused atomic.Int64
	var wg sync.WaitGroup
	deadline := time.Now().Add(10 * time.Second)
	for range clients {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				pods, err := e.pods(t, ns, "web")
				if err != nil {
					continue
				}
				for _, i := range rand.Perm(len(pods)) { // all of them, faster than they are replaced
					eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pods[i].Name}}
					switch err := e.evictOnce(t, eviction); {
					case err == nil:
						evicted.Add(1)
					case apierrors.IsTooManyRequests(err):
						refused.Add(1)
					case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
						t.Errorf("evict: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	stopWatching()
	if n := <-lowest; n < least || n == replicas {
		t.Errorf("there were %d healthy pods at the least, want %d or a few more", n, least)
	}
	if evicted.Load() < replicas || refused.Load() == 0 {
		t.Errorf("%d evictions and %d refusals: the budget was not put to the test", evicted.Load(), refused.Load())
	}
	t.Logf("%d evictions, %d refusals", evicted.Load(), refused.Load())
	eventually(t, "the budget recovers", func() error {
		return errors.Join(e.rolledOut(t, ns, "web", replicas),
			e.guarded(t, ns, map[string]string{"web": fmt.Sprintf("2 of 20/%d/20 DisruptionAllowed=True SufficientPods", least)}))
	})
}

// evictOnce requests an eviction without the client's retries after a rejection.
func (e *env) evictOnce(t *testing.T, eviction *policyv1.Eviction) error {
	return e.Client().CoreV1().RESTClient().Post().MaxRetries(0).
		Namespace(eviction.Namespace).Resource("pods").Name(eviction.Name).SubResource("eviction").
		Body(eviction).Do(t.Context()).Error()
}

// healthyPods watches the pods of a namespace, n of which are healthy, and returns the lowest number of healthy pods that
// there ever was. A watch shows every version in order, so that nothing in between is missed.
func (e *env) healthyPods(t *testing.T, ctx context.Context, ns string, n int) <-chan int {
	t.Helper()
	list := must(e.Client().CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}))(t)
	healthy := map[string]bool{}
	see := func(p *corev1.Pod, deleted bool) {
		if !deleted && p.DeletionTimestamp == nil && podCondition(p, corev1.PodReady) == corev1.ConditionTrue {
			healthy[p.Name] = true
		} else {
			delete(healthy, p.Name)
		}
	}
	for i := range list.Items {
		see(&list.Items[i], false)
	}
	if len(healthy) != n {
		t.Fatalf("%d pods are healthy at first, want %d", len(healthy), n)
	}
	w := must(e.Client().CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))(t)
	out := make(chan int, 1)
	go func() {
		lowest := n
		for ev := range w.ResultChan() {
			if p, ok := ev.Object.(*corev1.Pod); ok {
				see(p, ev.Type == "DELETED")
				lowest = min(lowest, len(healthy))
			}
		}
		out <- lowest
	}()
	return out
}

// TestBudgetsChangeHands hands budgets over while one of them records an eviction that was never completed.
func TestBudgetsChangeHands(t *testing.T) {
	t.Parallel()
	e := withWidgets(t, cluster.Upstream)
	ns := e.namespace(t, "hands")
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}))(t)
	e.custom(t, ns, "Widget", "widget", 3, 3)
	e.custom(t, ns, "Trinket", "trinket", 2, 2)
	e.allReady(t, ns, 3+3+2)
	e.guard(t, ns, budget("web", "web", "2", ""), budget("widget", "widget", "", "1"), budget("trinket", "trinket", "", "1"))
	settled := map[string]string{
		"web": "1 of 3/2/3 DisruptionAllowed=True SufficientPods", "widget": "1 of 3/2/3 DisruptionAllowed=True SufficientPods",
		"trinket": "0 of 0/0/0 (generation 0 of 1) DisruptionAllowed=False SyncFailed: trinkets.example.com does not implement the scale subresource",
	}
	eventually(t, "budgets", func() error { return e.guarded(t, ns, settled) })
	before := e.budgetVersions(t, ns)

	e.stopManager(t)
	e.noteEviction(t, ns, "web", 110*time.Second)
	e.manage(t, cluster.Orrery, raised...)
	eventually(t, "the noted pod counts as gone", func() error {
		b := must(e.Client().PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		return errors.Join(differ("healthy", b.Status.CurrentHealthy, 2), differ("noted", len(b.Status.DisruptedPods), 1))
	})
	eventually(t, "the noted pod counts again", func() error { return e.guarded(t, ns, settled) })
	for _, next := range []cluster.ManagerKind{cluster.Upstream, cluster.Orrery} {
		after := e.budgetVersions(t, ns)
		e.stopManager(t)
		e.manage(t, next, raised...)
		eventually(t, string(next)+" leads", func() error {
			if e.holder(t) == "" {
				return errors.New("nobody holds the lease")
			}
			return nil
		})
		time.Sleep(5 * time.Second) // for all that it might want to write
		if now := e.budgetVersions(t, ns); !maps.Equal(now, after) {
			t.Errorf("%s rewrote budgets: versions %v, then %v", next, after, now)
		}
	}
	if after := e.budgetVersions(t, ns); after["widget"] != before["widget"] || after["trinket"] != before["trinket"] {
		t.Errorf("budgets that nothing happened to were written: versions %v, then %v", before, after)
	}
}

// noteEviction changes a budget as an eviction some time ago would have, without deleting the pod.
func (e *env) noteEviction(t *testing.T, ns, name string, ago time.Duration) {
	t.Helper()
	pods := must(e.pods(t, ns, name))(t)
	b := must(e.Client().PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), name, metav1.GetOptions{}))(t)
	b.Status.DisruptionsAllowed--
	b.Status.DisruptedPods = map[string]metav1.Time{pods[0].Name: metav1.NewTime(time.Now().Add(-ago))}
	meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason, ObservedGeneration: b.Generation})
	must(e.Client().PolicyV1().PodDisruptionBudgets(ns).UpdateStatus(t.Context(), b, metav1.UpdateOptions{}))(t)
}

func (e *env) budgetVersions(t *testing.T, ns string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, b := range must(e.Client().PolicyV1().PodDisruptionBudgets(ns).List(t.Context(), metav1.ListOptions{}))(t).Items {
		out[b.Name] = b.ResourceVersion
	}
	return out
}
