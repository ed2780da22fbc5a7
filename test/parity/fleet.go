package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// programLabel is on the nodes of a program, and the key of a taint NoSchedule that keeps the pods of other programs away.
	// Its value is the name of the program's namespace. What tolerates all taints has to select the nodes it means.
	programLabel = "parity/program"
	// readiness is the annotation of a node that says which status its kubelet reports of the condition Ready; True by default.
	readiness = "parity/ready"
	// self stands for the program's namespace in the names, objects and patches of steps.
	self = "$self"
)

// programName is what the names of a program's namespaces, nodes and other objects without a namespace begin with.
var programName = regexp.MustCompile(`^[a-z-]+-\d+`)

// clusterScoped are the kinds without namespaces.
var clusterScoped = map[string]bool{"namespaces": true, "nodes": true, "realms": true}

// programOf returns the program that an object belongs to.
func programOf(u *unstructured.Unstructured) string {
	name := u.GetNamespace()
	if name == "" {
		name = u.GetName()
	}
	return programName.FindString(name)
}

// uidOf is the form of the UID of an object that a step has created: $uid(configmaps/name) or $uid(configmaps/namespace/name).
var uidOf = regexp.MustCompile(`\$uid\(([^)]*)\)`)

// fill puts the program's namespace and the UIDs of its objects into a text.
func (s *subject) fill(text string) string {
	text = strings.ReplaceAll(text, self, s.namespace)
	return uidOf.ReplaceAllStringFunc(text, func(m string) string {
		if id := s.uids[uidOf.FindStringSubmatch(m)[1]]; id != "" {
			return id
		}
		return "00000000-0000-4000-8000-000000000000"
	})
}

// nodeMade is the step that adds the node $self-<name> to the program.
func nodeMade(name string, labels map[string]string, taints ...corev1.Taint) step {
	return step{
		text: fmt.Sprintf("add node %s %v %v", name, labels, taints),
		do:   func(ctx context.Context, s *subject) error { return s.createNode(ctx, name, labels, taints) },
	}
}

// createNode adds the node <namespace>-<name>, in a zone of the program. It is ready, and its kubelet is played from then on,
// until the annotation parity/acts=stay silences it. It goes at the end of the program.
func (s *subject) createNode(ctx context.Context, name string, labels map[string]string, taints []corev1.Taint) error {
	name = s.namespace + "-" + name
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("128"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelTopologyRegion: "local", corev1.LabelTopologyZone: s.namespace, programLabel: s.namespace,
		}},
		Spec:   corev1.NodeSpec{Taints: append([]corev1.Taint{{Key: programLabel, Value: s.namespace, Effect: corev1.TaintEffectNoSchedule}}, taints...)},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
	for key, value := range labels {
		node.Labels[key] = s.fill(value)
	}
	node, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	s.beat(ctx, node)
	return nil
}

// beat renews a node's lease and status, as its kubelet does.
func (w *world) beat(ctx context.Context, node *corev1.Node) {
	w.renew(ctx, node)
	status := corev1.ConditionTrue
	if s := node.Annotations[readiness]; s != "" {
		status = corev1.ConditionStatus(s)
	}
	now := metav1.Now()
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: "Played", LastHeartbeatTime: now, LastTransitionTime: now}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == status {
			condition.LastTransitionTime = c.LastTransitionTime
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{condition}},
	})
	if err == nil {
		_, _ = w.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
}

func (w *world) renew(ctx context.Context, node *corev1.Node) {
	leases := w.client.CoordinationV1().Leases("kube-node-lease")
	now, seconds := metav1.NewMicroTime(time.Now()), int32(40)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return
	}
	if _, err := leases.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); apierrors.IsNotFound(err) {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
		_, _ = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: spec}, metav1.CreateOptions{})
	}
}

// clear removes what a program has outside of namespaces, and its other namespaces.
func (s *subject) clear(ctx context.Context) {
	for kind := range clusterScoped {
		for _, obj := range s.stores[kind].List() {
			u := obj.(*unstructured.Unstructured)
			if programOf(u) != s.namespace {
				continue
			}
			if kind == "namespaces" {
				s.end(u.GetName())
			}
			_ = s.any.Resource(kinds[kind]).Delete(ctx, u.GetName(), metav1.DeleteOptions{})
		}
	}
}

// release removes the finalizers of programs from what is to go.
func (s *subject) release(ctx context.Context) {
	for kind := range kinds {
		for _, u := range s.objects(kind, s.namespace) {
			if kind == "namespaces" && u.GetDeletionTimestamp() != nil {
				s.finalize(ctx, u.GetName())
			}
			if u.GetDeletionTimestamp() == nil || !slices.ContainsFunc(u.GetFinalizers(), ours) {
				continue
			}
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": u.GetUID(), "finalizers": slices.DeleteFunc(u.GetFinalizers(), ours)}})
			if err == nil {
				_, _ = s.in(kind, u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
			}
		}
	}
}

// finalize leaves the finalizers of a namespace's spec to the managers. A failed request is sent again in the next round.
func (s *subject) finalize(ctx context.Context, namespace string) {
	ns, err := s.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil || !slices.ContainsFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return ours(string(f)) }) {
		return
	}
	ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	_, _ = s.client.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
}

func ours(finalizer string) bool { return strings.HasPrefix(finalizer, "parity/") }

// eventually waits until something is the case, and fails after a time.
func eventually(ctx context.Context, limit time.Duration, is func() (bool, error)) error {
	for deadline := time.Now().Add(limit); ; {
		done, err := is()
		switch {
		case done || err != nil:
			return err
		case time.Now().After(deadline) || ctx.Err() != nil:
			return fmt.Errorf("it did not happen within %s", limit)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
