package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"orrery/hack/localcluster/cluster"
)

// daemonSets runs the phases of DaemonSets on more nodes than the other phases have. The nodes that it adds go again.
func (b *bench) daemonSets(ctx context.Context, c *cluster.Cluster) error {
	s := &daemonSets{client: b.client, namespace: fmt.Sprintf("bench-%s-daemons-%d", b.kind, b.round), size: b.daemons}
	var added []string
	prepare := func() (err error) {
		if missing := s.size.each - b.nodes; missing > 0 {
			if added, err = c.AddNodes(ctx, missing); err != nil {
				return err
			}
		}
		return makeNamespace(ctx, b.client, s.namespace)
	}
	err := b.steps(ctx, s.size.String(), s.size.count*s.size.each, prepare, []step{
		{"ds-create", func() error { return s.create(ctx) }, func() (bool, error) { return s.settled(ctx) }},
		{"ds-roll", func() error { return s.patch(ctx, rolled) }, func() (bool, error) { return s.settled(ctx) }},
		{"ds-delete", func() error { return removeNamespace(ctx, b.client, s.namespace) }, func() (bool, error) { return namespaceGone(ctx, b.client, s.namespace) }},
	})
	for _, node := range added {
		if gone := b.client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err == nil {
			err = gone
		}
	}
	return err
}

// daemonSets are some DaemonSets of one namespace, meant for every node.
type daemonSets struct {
	client    kubernetes.Interface
	namespace string
	size      size // number and nodes
}

func (s *daemonSets) name(i int) string { return fmt.Sprintf("daemon-%03d", i) }

func (s *daemonSets) create(ctx context.Context) error {
	atOnce := intstr.FromString(rollAtOnce)
	for i := range s.size.count {
		labels := map[string]string{"app": s.name(i)}
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: s.name(i), Labels: labels}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels, ""),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &atOnce},
			},
		}}
		if _, err := s.client.AppsV1().DaemonSets(s.namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *daemonSets) patch(ctx context.Context, patch string) error {
	for i := range s.size.count {
		_, err := s.client.AppsV1().DaemonSets(s.namespace).Patch(ctx, s.name(i), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// settled reports whether every DaemonSet has an available pod of its present template on each node.
func (s *daemonSets) settled(ctx context.Context) (bool, error) {
	list, err := s.client.AppsV1().DaemonSets(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		st, want := list.Items[i].Status, int32(s.size.each)
		if st.ObservedGeneration < list.Items[i].Generation || st.DesiredNumberScheduled != want || st.UpdatedNumberScheduled != want || st.NumberAvailable != want {
			return false, nil
		}
	}
	return len(list.Items) == s.size.count, nil
}
