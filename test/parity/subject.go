package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// A subject is a program's namespace in one world: what steps work on.
type subject struct {
	*world
	namespace string
	uids      map[string]string // of what the steps have created, the latest of each name
}

// create creates an object, given with or without its kind, as a resource such as "deployments". It is in the program's
// namespace unless it names another.
func (s *subject) create(ctx context.Context, resource string, obj runtime.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	if u.GetKind() == "" {
		gvks, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			return err
		}
		u.SetGroupVersionKind(gvks[0])
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	if err := u.UnmarshalJSON([]byte(s.fill(string(data)))); err != nil {
		return err
	}
	key := path.Join(resource, u.GetNamespace(), u.GetName())
	if u, err = s.in(resource, u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{}); err == nil && s.uids != nil {
		s.uids[key] = string(u.GetUID())
	}
	return err
}

// in is where a resource is read and written: the program's namespace unless another is named.
func (s *subject) in(resource, namespace string) dynamic.ResourceInterface {
	switch {
	case clusterScoped[resource]:
		return s.any.Resource(kinds[resource])
	case namespace == "":
		namespace = s.namespace
	}
	return s.any.Resource(kinds[resource]).Namespace(namespace)
}

// named returns where an object is that is called <name> or <namespace>/<name>, and its name alone.
func (s *subject) named(resource, name string) (dynamic.ResourceInterface, string) {
	namespace, name, found := strings.Cut(s.fill(name), "/")
	if !found {
		namespace, name = "", namespace
	}
	return s.in(resource, namespace), name
}

// patch sends a JSON merge patch.
func (s *subject) patch(ctx context.Context, resource, name, patch string, subresource ...string) error {
	where, name := s.named(resource, name)
	_, err := where.Patch(ctx, name, types.MergePatchType, []byte(s.fill(patch)), metav1.PatchOptions{}, subresource...)
	return err
}

// delete deletes an object with a policy; an empty policy leaves the choice to the server.
func (s *subject) delete(ctx context.Context, resource, name string, policy metav1.DeletionPropagation) error {
	options := metav1.DeleteOptions{}
	if policy != "" {
		options.PropagationPolicy = &policy
	}
	where, name := s.named(resource, name)
	return where.Delete(ctx, name, options)
}

// pods returns the pods that the server has, in an order that is the same in both worlds but for pods that are alike.
func (s *subject) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	beside := onNodes(list.Items, func(pod corev1.Pod) (node, text string) { return daemonPod(&pod) })
	ranks := map[types.UID]string{}
	for i := range list.Items {
		pod := &list.Items[i]
		node, self := daemonPod(pod)
		ranks[pod.UID] = s.rank(pod) + self + beside[node] + s.text(pod)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(ranks[a.UID], ranks[b.UID]) })
	return list.Items, nil
}

// text returns all that is in a pod and the same in both worlds.
func (s *subject) text(pod *corev1.Pod) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		panic(err) // it is of a type of the API
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.names[s.namespace]
	if names == nil {
		names = newAliases()
	}
	return normalize("pods", &unstructured.Unstructured{Object: content}, names)
}

// rank is what pods are sorted by.
func (s *subject) rank(pod *corev1.Pod) string {
	owner := ""
	if ref := metav1.GetControllerOf(pod); ref != nil {
		owner = ref.Kind + "/" + ref.Name
	}
	name := pod.Name
	if drawn(pod) {
		name = pod.GenerateName
	}
	ready, timeless := false, 0
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		if c.LastTransitionTime.IsZero() {
			timeless++
		}
	}
	going := pod.DeletionTimestamp != nil
	index := pod.Annotations["batch.kubernetes.io/job-completion-index"]
	labels := maps.Clone(pod.Labels)
	delete(labels, corev1.LabelTopologyZone) // of the node
	delete(labels, corev1.LabelTopologyRegion)
	return fmt.Sprint(going, owner, name, index, pinnedTo(pod), pod.Status.Phase, ready, labels, pod.Annotations, pod.Finalizers,
		len(pod.Status.Conditions), timeless)
}

func pinnedTo(pod *corev1.Pod) string {
	if ref := metav1.GetControllerOf(pod); ref != nil && ref.Kind == "DaemonSet" {
		return alike.ReplaceAllString(pod.Spec.NodeName, "$1*")
	}
	return ""
}

// act changes the status of the pods from..to in the order of pods; fewer if there are fewer.
func (s *subject) act(ctx context.Context, from, to int, change func(*corev1.Pod)) error {
	pods, err := s.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods[min(from, len(pods)):min(to, len(pods))] {
		if err := s.report(ctx, &pods[from+i], change); err != nil {
			return err
		}
	}
	return nil
}

// report changes the status of a pod as its kubelet would.
func (s *subject) report(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod)) error {
	changed := pod.DeepCopy()
	change(changed)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   changed.Status,
	})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// own makes an object, which exists, the only owner of another.
func (s *subject) own(ctx context.Context, resource, name string, ref metav1.OwnerReference, owners string) error {
	owner, err := s.any.Resource(kinds[owners]).Namespace(s.namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ref.UID = owner.GetUID()
	text, err := json.Marshal([]metav1.OwnerReference{ref})
	if err != nil {
		return err
	}
	return s.patch(ctx, resource, name, `{"metadata":{"ownerReferences":`+string(text)+`}}`)
}

// patchAll sends a JSON merge patch for each object of a resource in the namespace.
func (s *subject) patchAll(ctx context.Context, resource, patch string) error {
	list, err := s.any.Resource(kinds[resource]).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		_, err := s.any.Resource(kinds[resource]).Namespace(s.namespace).Patch(ctx, list.Items[i].GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
