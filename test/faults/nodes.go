package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/test/faults/checker"
)

const (
	remote = "faults-remote" // where the pods on nodes are that come and go, and what these nodes are tainted and labelled with
	grave  = "remote-0"      // a node that is lost in the end
	// remotes is how many such nodes there are. Together with the cluster's other nodes in their zone they are so many that
	// no more than half of the zone is lost at once: beyond that the manager would slow down evictions.
	remotes = 7
	awayMax = 4
)

// remoteNode is a node whose life and death the driver controls.
type remoteNode struct {
	name       string
	lost, gone bool
	until      time.Time // when it comes back
}

// remoteNodes creates nodes that no other pods run on, and pods on them that tolerate the loss of the node for some time.
// The nodes stop sending heartbeats and recover, and are deleted and created again.
func (d *driver) remoteNodes(ctx context.Context) error {
	if err := d.makeNamespace(ctx, remote); err != nil {
		return err
	}
	for i := range remotes {
		d.remote = append(d.remote, &remoteNode{name: fmt.Sprintf("remote-%d", i)})
		if err := d.createNode(ctx, d.remote[i].name); err != nil {
			return err
		}
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "wandering"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(6)), Selector: selector("wandering"), Template: template("wandering", "fake:1", nil),
	}}
	rs.Spec.Template.Spec.NodeSelector = map[string]string{remote: "comes-back"}
	rs.Spec.Template.Spec.Tolerations = tolerations(new(int64(2)))
	if d.has("replicaset-controller") {
		if _, err := d.api.AppsV1().ReplicaSets(remote).Create(ctx, rs, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	d.often(800*time.Millisecond, d.placePod)
	d.often(6*time.Second, d.loseNode)
	d.often(25*time.Second, d.removeNode)
	d.often(2*time.Second, d.recover)
	return nil
}

// createNode creates a node like one of the cluster's.
func (d *driver) createNode(ctx context.Context, name string) error {
	like, err := d.api.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: like.Labels, Annotations: like.Annotations}, Status: like.Status}
	n.Status.Conditions = nil
	n.Labels[corev1.LabelHostname], n.Labels[remote] = name, "comes-back"
	if name == grave {
		n.Labels[remote] = "lost"
	}
	n.Spec.Taints = []corev1.Taint{{Key: remote, Effect: corev1.TaintEffectNoSchedule}}
	_, err = d.api.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// tolerations let a pod run on these nodes and stay for some seconds, or for ever, after they are lost.
func tolerations(seconds *int64) []corev1.Toleration {
	out := []corev1.Toleration{{Key: remote, Operator: corev1.TolerationOpExists}}
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds})
	}
	return out
}

// placePod creates one of the pods that have no controller to replace them.
func (d *driver) placePod(ctx context.Context) error {
	pods, err := d.api.CoreV1().Pods(remote).List(ctx, metav1.ListOptions{LabelSelector: checker.OnlyEvicted})
	if err != nil || len(pods.Items) > 25 {
		return err
	}
	d.placed++
	t := template("placed", "fake:1", nil)
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Name = fmt.Sprintf("placed-%d", d.placed)
	p.Labels[checker.OnlyEvicted] = "true"
	p.Spec.NodeSelector = map[string]string{remote: []string{"comes-back", "lost"}[d.rand.IntN(2)]}
	p.Spec.Tolerations = tolerations([]*int64{new(int64(0)), new(int64(3)), new(int64(15)), new(int64(40)), nil}[d.rand.IntN(5)])
	_, err = d.api.CoreV1().Pods(remote).Create(ctx, p, metav1.CreateOptions{})
	return err
}

// pick returns one of the nodes that exist and, unless lost ones are allowed, are alive. It returns nil if enough nodes are
// lost or deleted.
func (d *driver) pick(lost bool) *remoteNode {
	away := 0
	var out []*remoteNode
	for _, n := range d.remote {
		if n.lost || n.gone {
			away++
		}
		if !n.gone && (lost || !n.lost) {
			out = append(out, n)
		}
	}
	if n := out[d.rand.IntN(len(out))]; n.lost || away < awayMax {
		return n
	}
	return nil
}

func (d *driver) loseNode(ctx context.Context) error {
	n := d.pick(false)
	if n == nil {
		return nil
	}
	if err := d.c.StopNodeHeartbeat(ctx, n.name); err != nil {
		return err
	}
	n.lost, n.until = true, time.Now().Add(time.Duration(15+d.rand.IntN(90))*time.Second)
	return nil
}

func (d *driver) removeNode(ctx context.Context) error {
	n := d.pick(true)
	if n == nil {
		return nil
	}
	if err := d.api.CoreV1().Nodes().Delete(ctx, n.name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	n.lost, n.gone, n.until = false, true, time.Now().Add(time.Duration(1+d.rand.IntN(80))*time.Second)
	return nil
}

// recover brings back the nodes that have been away long enough.
func (d *driver) recover(ctx context.Context) error {
	var errs []error
	for _, n := range d.remote {
		if (n.lost || n.gone) && time.Now().After(n.until) {
			errs = append(errs, d.bringBack(ctx, n))
		}
	}
	return errors.Join(errs...)
}

func (d *driver) bringBack(ctx context.Context, n *remoteNode) error {
	if err := d.createNode(ctx, n.name); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := d.c.StartNodeHeartbeat(ctx, n.name); err != nil {
		return err
	}
	n.lost, n.gone = false, false
	return d.touchPods(ctx, n.name)
}

// touchPods touches the pods on a recovered node that were deleted in the meantime, or are pending: a kubelet would notice them
// by itself, but the local cluster's does not.
func (d *driver) touchPods(ctx context.Context, node string) error {
	pods, err := d.api.CoreV1().Pods(remote).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return err
	}
	d.touches++
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"woken":"%d"}}}`, d.touches)
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodPending {
			continue
		}
		if _, err := d.api.CoreV1().Pods(remote).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// lastNodes brings back all nodes, including those that are away because the response to a change was lost, and then loses
// one node and deletes another, for good.
func (d *driver) lastNodes(ctx context.Context) error {
	if len(d.remote) == 0 {
		return nil
	}
	for _, n := range d.remote {
		if err := d.bringBack(ctx, n); err != nil {
			return fmt.Errorf("bring back a node: %w", err)
		}
	}
	if err := d.c.StopNodeHeartbeat(ctx, grave); err != nil {
		return err
	}
	return d.api.CoreV1().Nodes().Delete(ctx, d.remote[1].name, metav1.DeleteOptions{})
}
