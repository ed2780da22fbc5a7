package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ports remembers which pod holds a port of a node. Only the informer's goroutine uses it.
type ports map[string]types.UID

// take gives a pod the ports that it asks of its node, all or none, and reports whether it has them.
func (p ports) take(pod *corev1.Pod) bool {
	wanted := map[string]types.UID{}
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort == 0 {
				continue
			}
			name := pod.Spec.NodeName + "/" + string(port.Protocol) + "/" + strconv.Itoa(int(port.HostPort))
			if holder, held := p[name]; held && holder != pod.UID {
				return false
			}
			wanted[name] = pod.UID
		}
	}
	maps.Copy(p, wanted)
	return true
}

// release gives back what a pod holds.
func (p ports) release(uid types.UID) {
	maps.DeleteFunc(p, func(_ string, holder types.UID) bool { return holder == uid })
}

// reject ends a pod that the scheduler would not have put on this node, as a kubelet does.
func (k *Kubelet) reject(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{
			"phase": corev1.PodFailed, "reason": "NodePorts",
			"message": "Pod was rejected: Node didn't have free ports for the requested pod ports",
		},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("reject pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
