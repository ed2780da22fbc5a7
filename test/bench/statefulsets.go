package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// rollAtOnce is how many pods of a StatefulSet are replaced at once. One at a time would measure the kubelets.
const rollAtOnce = "20%"

// statefulSets runs the phases of StatefulSets whose pods start in parallel.
func (b *bench) statefulSets(ctx context.Context) error {
	s := &statefulSets{client: b.client, namespace: fmt.Sprintf("bench-%s-sets-%d", b.kind, b.round), size: b.sets}
	return b.steps(ctx, s.size.String(), s.size.count*s.size.each, func() error { return makeNamespace(ctx, b.client, s.namespace) }, []step{
		{"sts-create", func() error { return s.create(ctx) }, func() (bool, error) { return s.settled(ctx, s.size.each) }},
		{"sts-roll", func() error { return s.patch(ctx, rolled) }, func() (bool, error) { return s.settled(ctx, s.size.each) }},
		{"sts-zero", func() error { return s.patch(ctx, `{"spec":{"replicas":0}}`) }, func() (bool, error) { return s.settled(ctx, 0) }},
		{"", func() error { return s.patch(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, s.size.each)) }, func() (bool, error) { return s.settled(ctx, s.size.each) }},
		{"sts-delete", func() error { return removeNamespace(ctx, b.client, s.namespace) }, func() (bool, error) { return namespaceGone(ctx, b.client, s.namespace) }},
	})
}

type statefulSets struct {
	client    kubernetes.Interface
	namespace string
	size      size
}

func (s *statefulSets) name(i int) string { return fmt.Sprintf("set-%03d", i) }

func (s *statefulSets) create(ctx context.Context) error {
	n, atOnce := int32(s.size.each), intstr.FromString(rollAtOnce)
	for i := range s.size.count {
		labels := map[string]string{"app": s.name(i)}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: s.name(i), Labels: labels}, Spec: appsv1.StatefulSetSpec{
			Replicas: &n, ServiceName: s.name(i), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels, ""),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &atOnce},
			},
		}}
		if _, err := s.client.AppsV1().StatefulSets(s.namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *statefulSets) patch(ctx context.Context, patch string) error {
	for i := range s.size.count {
		_, err := s.client.AppsV1().StatefulSets(s.namespace).Patch(ctx, s.name(i), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// settled reports whether every StatefulSet runs that many replicas of its present template and no other pod.
func (s *statefulSets) settled(ctx context.Context, replicas int) (bool, error) {
	list, err := s.client.AppsV1().StatefulSets(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		st, want := list.Items[i].Status, int32(replicas)
		if st.ObservedGeneration < list.Items[i].Generation || st.Replicas != want || st.AvailableReplicas != want || st.UpdateRevision != st.CurrentRevision {
			return false, nil
		}
	}
	return len(list.Items) == s.size.count, nil
}
