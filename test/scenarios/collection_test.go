package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TestCollection deletes owners in every way that kubectl supports, and creates objects whose owners do not exist.
func TestCollection(t *testing.T) {
	t.Parallel()
	e := anywhere(t, 3)
	// The garbage collector keeps requesting a removed kind until it notices the removal.
	e.expect(`Failed to watch.*gadgets\.example\.com`)
	lost := e.podsOfLostNode(t) // takes a minute, which the others use

	t.Run("background deletion removes ReplicaSets and pods", func(t *testing.T) {
		ns := e.namespace(t, "background")
		e.rollOut(t, ns, "web", 3)
		e.kubectl(t, "-n", ns, "delete", "deployment", "web", "--cascade=background")
		e.empty(t, ns, "replicasets", "pods")
	})
	t.Run("foreground deletion keeps the owner until its pods are gone", func(t *testing.T) { foreground(t, e) })
	t.Run("orphaned pods live on and are adopted again", func(t *testing.T) { orphans(t, e) })
	t.Run("what a custom resource owns goes with it", func(t *testing.T) { customOwner(t, e) })
	t.Run("an expired Job goes with what it owns", func(t *testing.T) {
		ns := e.namespace(t, "expired")
		e.finishedJob(t, ns, "done", 2)
		job := must(e.Client().BatchV1().Jobs(ns).Get(t.Context(), "done", metav1.GetOptions{}))(t)
		e.configMaps(t, ns, 2, metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID})
		e.gone(t, "jobs", ns, "done")
		e.gone(t, "configmaps", ns, "held-0")
		e.gone(t, "configmaps", ns, "held-1")
		if lived := time.Since(job.Status.CompletionTime.Time); lived < 2*time.Second {
			t.Errorf("it was deleted after %v, before its time", lived)
		}
	})
	t.Run("an owner that never was takes its dependents with it", func(t *testing.T) {
		ns := e.namespace(t, "virtual")
		kept := e.configMaps(t, ns, 1)
		e.kubectl(t, "-n", ns, "create", "configmap", "other")
		e.adopt(t, ns, "other", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: types.UID("00000000-0000-4000-8000-000000000001")})
		e.gone(t, "configmaps", ns, "other")
		must(e.Client().CoreV1().ConfigMaps(ns).Get(t.Context(), kept[0], metav1.GetOptions{}))(t)
	})
	t.Run("pods of a deleted node go", func(t *testing.T) { lost(t) })
}

func foreground(t *testing.T, e *env) {
	ns := e.namespace(t, "foreground")
	d := deployment("slow", 2)
	d.Spec.Template.Annotations = map[string]string{"localcluster.orrery/terminate-after": "3s"}
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}))(t)
	eventually(t, "deployment", func() error { return e.rolledOut(t, ns, "slow", 2) })
	e.kubectl(t, "-n", ns, "delete", "deployment", "slow", "--cascade=foreground", "--wait=false")
	eventually(t, "owner goes", func() error {
		// The owner is read before its pods: of what is left when it is there, it is the last.
		owners := must(e.Client().AppsV1().Deployments(ns).List(t.Context(), metav1.ListOptions{}))(t)
		pods := must(e.Client().CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}))(t)
		if len(owners.Items) == 0 && len(pods.Items) > 0 {
			t.Fatalf("the deployment is gone and %d pods are still there", len(pods.Items))
		}
		return differ("deployments", len(owners.Items), 0)
	})
	e.empty(t, ns, "replicasets", "pods")
}

func orphans(t *testing.T, e *env) {
	ns := e.namespace(t, "orphan")
	e.rollOut(t, ns, "web", 3)
	before := names(must(e.pods(t, ns, "web"))(t))
	sets := must(e.Client().AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{}))(t)
	e.kubectl(t, "-n", ns, "delete", "deployment", "web", "--cascade=orphan")
	e.kubectl(t, "-n", ns, "delete", "replicaset", sets.Items[0].Name, "--cascade=orphan")
	pods := must(e.pods(t, ns, "web"))(t)
	if got := names(pods); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("pods are %v, want those from before, %v", got, before)
	}
	for _, p := range pods {
		if len(p.OwnerReferences) > 0 {
			t.Errorf("pod %s is still owned by %v", p.Name, p.OwnerReferences)
		}
	}
	e.rollOut(t, ns, "web", 3)
	if got := names(must(e.pods(t, ns, "web"))(t)); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("a deployment that matches the orphans has pods %v, want %v", got, before)
	}
}

// podsOfLostNode binds a pod to a node, deletes the node and returns a check that the pod is removed.
func (e *env) podsOfLostNode(t *testing.T) func(*testing.T) {
	t.Helper()
	if existing != "" {
		return func(t *testing.T) { own(t, "makes a node") }
	}
	ns := e.namespace(t, "lost")
	node := must(e.AddUnplayedNode(t.Context()))(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "left-behind"}, Spec: podSpec("fake:1")}
	pod.Spec.NodeName = node
	must(e.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	if err := e.Client().CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) { e.gone(t, "pods", ns, pod.Name) }
}

func (e *env) rollOut(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	must(e.Client().AppsV1().Deployments(namespace).Create(t.Context(), deployment(name, replicas), metav1.CreateOptions{}))(t)
	eventually(t, "deployment "+name, func() error { return e.rolledOut(t, namespace, name, replicas) })
}

// empty waits until a namespace holds no object of the kinds.
func (e *env) empty(t *testing.T, namespace string, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		eventually(t, "no "+kind+" in "+namespace, func() error {
			out, err := e.tryKubectl(t, "", "-n", namespace, "get", kind, "-o", "name")
			if err != nil {
				return err
			}
			return differ(kind, out, "")
		})
	}
}

func names(pods []corev1.Pod) (all []string) {
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return all // lists of the API server are sorted by name
}

func (e *env) adopt(t *testing.T, namespace, configMap string, owner metav1.OwnerReference) {
	t.Helper()
	maps := e.Client().CoreV1().ConfigMaps(namespace)
	cm := must(maps.Get(t.Context(), configMap, metav1.GetOptions{}))(t)
	cm.OwnerReferences = append(cm.OwnerReferences, owner)
	must(maps.Update(t.Context(), cm, metav1.UpdateOptions{}))(t)
}

const customKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]ss, singular: %[1]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// defineKind defines a kind of example.com/v1 whose objects may hold anything, and returns once the server has it.
func (e *env) defineKind(t *testing.T, kind string) {
	t.Helper()
	singular := strings.ToLower(kind)
	e.apply(t, fmt.Sprintf(customKind, singular, kind))
	e.kubectl(t, "wait", "--for=condition=Established", "crd/"+singular+"s.example.com", "--timeout=2m")
}

func customOwner(t *testing.T, e *env) {
	ns := e.namespace(t, "custom")
	e.defineKind(t, "Gadget")
	client := must(dynamic.NewForConfig(e.RESTConfig()))(t).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}).Namespace(ns)
	gadget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "g"}}}
	eventually(t, "gadget made", func() (err error) {
		gadget, err = client.Create(t.Context(), gadget, metav1.CreateOptions{})
		return err
	})
	yes := true
	e.configMaps(t, ns, 2, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Gadget", Name: "g", UID: gadget.GetUID(), BlockOwnerDeletion: &yes})
	// Longer than the garbage collector takes to discover a new kind: dependents of its objects must not be collected.
	time.Sleep(3 * time.Second)
	maps := must(e.Client().CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{}))(t)
	if got := len(maps.Items); got != 3 { // with kube-root-ca.crt
		t.Fatalf("%d ConfigMaps while their owner lives, want 3", got)
	}
	foreground := metav1.DeletePropagationForeground
	if err := client.Delete(t.Context(), "g", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gadget gone", func() error {
		left, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		held := must(e.Client().CoreV1().ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{}))(t)
		if len(held.OwnerReferences) > 0 {
			return errors.New("the ConfigMap of the namespace has an owner")
		}
		return differ("gadgets", len(left.Items), 0)
	})
	e.gone(t, "configmaps", ns, "held-0")
	e.gone(t, "configmaps", ns, "held-1")
	e.kubectl(t, "delete", "crd", "gadgets.example.com", "--timeout=2m")
}
