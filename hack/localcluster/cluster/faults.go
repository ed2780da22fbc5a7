package cluster

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// KillAPIServer kills kube-apiserver without warning, as a crash would.
func (c *Cluster) KillAPIServer() error { return c.APIServer().Kill() }

// RestartAPIServer starts kube-apiserver again on its old port, stopping it
// first when it runs, waits until it is ready, and wakes the kubelets.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if old := c.APIServer(); old.Running() {
		if err := old.Stop(ctx); err != nil {
			return err
		}
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := c.writeState(); err != nil {
		return err
	}
	return c.WakeKubelets(ctx)
}

// ReviveScheduler starts kube-scheduler again if it has ended, as a kubelet would, and reports whether it had. It ends by
// itself when it finds that its cache contradicts the API, as may happen after a server that did not answer.
func (c *Cluster) ReviveScheduler() (bool, error) {
	if c.Scheduler().Running() {
		return false, nil
	}
	if err := c.startScheduler(); err != nil {
		return true, err
	}
	return true, c.writeState()
}

// wakeAnnotation is put on pods by WakeKubelets. Its value says when.
const wakeAnnotation = "localcluster.orrery/woken"

// WakeKubelets touches every bound pod that waits for its kubelet: to start, to
// complete or to go away. A kubelet tries again when a write fails; kwok does so
// for refused connections but not for broken ones, and would leave such a pod
// as it is until something changes it.
func (c *Cluster) WakeKubelets(ctx context.Context) error {
	if c.options.NoKwok {
		return nil
	}
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, wakeAnnotation, time.Now().Format(time.RFC3339Nano))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWorkers)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !waitsForKubelet(pod) {
			continue
		}
		group.Go(func() error {
			_, err := c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("touch pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// waitsForKubelet reports whether the next change of a pod is its kubelet's.
func waitsForKubelet(pod *corev1.Pod) bool {
	switch {
	case pod.Spec.NodeName == "":
		return false
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodPending:
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return pod.Status.Phase == corev1.PodRunning && owner != nil && owner.Kind == "Job"
}

// PauseEtcd freezes etcd: connections stay open and nothing answers.
func (c *Cluster) PauseEtcd() error { return c.Etcd().Signal(syscall.SIGSTOP) }

// ContinueEtcd ends PauseEtcd.
func (c *Cluster) ContinueEtcd() error { return c.Etcd().Signal(syscall.SIGCONT) }

// PauseKwok freezes every kubelet at once: no lease is renewed, no pod starts or ends.
func (c *Cluster) PauseKwok() error { return c.Kwok().Signal(syscall.SIGSTOP) }

// ContinueKwok ends PauseKwok.
func (c *Cluster) ContinueKwok() error { return c.Kwok().Signal(syscall.SIGCONT) }
