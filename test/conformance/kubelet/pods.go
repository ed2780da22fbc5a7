package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// The annotations by which kwok is steered; hack/localcluster documents them.
const (
	readyAnnotation = "localcluster.orrery/ready"
	runFor          = "localcluster.orrery/run-for"
	exitCode        = "localcluster.orrery/exit-code"
)

// mostRuns bounds how often a container that fails is started again before its pod is told to end.
const mostRuns = 5

// watch looks at every pod once when it has started, until ctx ends.
func (k *Kubelet) watch(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(k.client, 0)
	// Only the informer's goroutine uses these.
	seen, held := map[types.UID]bool{}, ports{}
	look := func(obj any) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return
		}
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			held.release(pod.UID)
		}
		if seen[pod.UID] || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			return
		}
		seen[pod.UID] = true
		if err := k.begin(ctx, pod, held); err != nil && ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "play a pod", "pod", pod.Namespace+"/"+pod.Name)
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, obj any) { look(obj) },
		DeleteFunc: func(obj any) {
			if last, missed := obj.(cache.DeletedFinalStateUnknown); missed {
				obj = last.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				held.release(pod.UID)
			}
		},
	})
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "watch pods")
		return
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
}

// begin does what a kubelet does with a pod that starts: it looks for its ports, and runs the container of a pod that
// kwok leaves alone, and the probes that look at files, which a predecessor may have left.
func (k *Kubelet) begin(ctx context.Context, pod *corev1.Pod, held ports) error {
	if !held.take(pod) {
		return k.reject(ctx, pod)
	}
	if undecided(pod) {
		if err := k.decide(ctx, pod); err != nil {
			return err
		}
	}
	for _, c := range pod.Spec.Containers {
		if c.ReadinessProbe != nil && c.ReadinessProbe.Exec != nil {
			return k.report(ctx, pod)
		}
	}
	return nil
}

// undecided reports whether kwok leaves it to somebody else how the containers of a pod end: a script looks for
// a file of the node. The same rule stands in hack/localcluster/cluster/containers.jq.
func undecided(pod *corev1.Pod) bool {
	if pod.Annotations[runFor] != "" {
		return false
	}
	host := false
	for _, v := range pod.Spec.Volumes {
		host = host || v.HostPath != nil
	}
	return host && strings.Contains(script(pod), "-r /")
}

// script returns the words of the first container, which is the only one of such pods.
func script(pod *corev1.Pod) string {
	c := pod.Spec.Containers[0]
	return strings.Join(append(append([]string(nil), c.Command...), c.Args...), " ")
}

// decide runs the container, and tells kwok how it ends if it ends.
func (k *Kubelet) decide(ctx context.Context, pod *corev1.Pod) error {
	c := &pod.Spec.Containers[0]
	m := &machine{disk: k.disk, pod: pod, container: c}
	words := append(append([]string(nil), c.Command...), c.Args...)
	code := 0
	for range mostRuns {
		var err error
		code, err = m.run(ctx, words, streams{strings.NewReader(""), io.Discard, io.Discard})
		if errors.Is(err, errKeepsRunning) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("run container %s: %w", c.Name, err)
		}
		if code == 0 || !startsAgain(c) {
			break
		}
	}
	return k.annotate(ctx, pod, map[string]string{runFor: "0s", exitCode: strconv.Itoa(code)})
}

// startsAgain reports whether a container that failed starts again within its pod. A pod's own OnFailure is not asked:
// what it runs is within what kwok decides.
func startsAgain(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyOnFailure
}

// report runs the probes of a pod after something has changed in it, and tells kwok the outcome.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod) error {
	ok, err := ready(ctx, k.disk, pod)
	if err != nil {
		return fmt.Errorf("probe pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	want := strconv.FormatBool(ok)
	told, isTold := pod.Annotations[readyAnnotation]
	if told == want || !isTold && ok == isReady(pod) {
		return nil
	}
	return k.annotate(ctx, pod, map[string]string{readyAnnotation: want})
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// annotate changes exactly this pod: its name may belong to its successor by now.
func (k *Kubelet) annotate(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("annotate pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func orEmpty(r io.Reader) io.Reader {
	if r == nil {
		return strings.NewReader("")
	}
	return r
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
