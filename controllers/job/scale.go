package job

import (
	"context"
	"strconv"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// callsAtOnce bounds the deletions and patches under way for one Job: more would only wait in the server's queues.
const callsAtOnce = 64

// change is what has been done to a Job's pods. The cache does not show it yet.
type change struct {
	removed      map[types.UID]bool
	removedReady int
	created      int
}

// active returns how many pods are active after the change.
func (c change) active(v *view) int { return len(v.active) - len(c.removed) + c.created }

// scale carries out a plan. Together with an error it returns what has been done nevertheless.
func (r *reconciler) scale(ctx context.Context, v *view, p plan) (change, error) {
	log := klog.FromContext(ctx)
	if len(p.track) > 0 {
		if err := eachPod(ctx, p.track, func(ctx context.Context, i int) error { return r.track(ctx, p.track[i]) }); err != nil {
			return change{}, err
		}
	}
	switch {
	case len(p.remove) > 0:
		log.V(2).Info("Deleting pods of the job", "job", klog.KObj(v.job), "active", len(v.active), "deleting", len(p.remove), "surplus", p.surplus)
		return r.remove(ctx, v, p)
	case len(p.create) > 0 && v.closing:
		log.V(4).Info("Too few pods, but the namespace is being deleted", "job", klog.KObj(v.job))
	case len(p.create) > 0:
		log.V(2).Info("Creating pods of the job", "job", klog.KObj(v.job), "active", len(v.active), "creating", len(p.create))
		return r.create(ctx, v, p.create)
	}
	return change{}, nil
}

// remove deletes pods. Those of a Job that ends keep their finalizer until they are counted. Surplus pods lose it first,
// because a pod that is being deleted and still has the finalizer counts as failed.
func (r *reconciler) remove(ctx context.Context, v *view, p plan) (change, error) {
	gone := make([]bool, len(p.remove))
	err := eachPod(ctx, p.remove, func(ctx context.Context, i int) error {
		pod := p.remove[i]
		if p.surplus {
			// A pod that has finished meanwhile has to be counted, so it must not have changed.
			if err := r.untrack(ctx, pod, pod.ResourceVersion); err != nil {
				return err
			}
		}
		if err := r.control.Delete(ctx, v.job, pod); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		gone[i] = true
		return nil
	})
	c := change{removed: map[types.UID]bool{}}
	for i, pod := range p.remove {
		if gone[i] {
			c.removed[pod.UID] = true
			if podctl.Ready(pod) {
				c.removedReady++
			}
		}
	}
	return c, err
}

// eachPod makes one call per pod, and returns the first error: what makes one call fail often makes all of them fail.
func eachPod(ctx context.Context, pods []*corev1.Pod, call func(ctx context.Context, i int) error) error {
	return kit.BatchFirst(ctx, len(pods), callsAtOnce, call)
}

// create creates one pod for each index, in batches that double. A namespace that goes away ends it without an error.
func (r *reconciler) create(ctx context.Context, v *view, indexes []int) (change, error) {
	model := podctl.FromTemplate(&v.job.Spec.Template, v.job, *metav1.NewControllerRef(v.job, jobKind))
	if !tracked(model) {
		model.Finalizers = append(model.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if indexed(v.job) {
		tellIndex(&model.Spec)
	}
	var tried atomic.Int32
	made, err := r.control.CreateMany(ctx, v.job, len(indexes), func(i int) *corev1.Pod {
		tried.Add(1)
		return podFor(v, model, indexes[i])
	})
	lost := 0
	if err != nil {
		lost = int(tried.Load()) - made
	}
	r.metrics.creations(v, made, lost)
	return change{created: made}, err
}

// podFor returns the pod of an index. It shares the model's spec, which is only read.
func podFor(v *view, model *corev1.Pod, index int) *corev1.Pod {
	pod := *model // the encoder marks what it sends with the kind for a moment, so each request needs its own
	if index == noIndex {
		return &pod
	}
	text := strconv.Itoa(index)
	pod.GenerateName = indexedPrefix(v.job.Name, text)
	pod.Spec.Hostname = v.job.Name + "-" + text
	pod.Labels = withEntry(model.Labels, batchv1.JobCompletionIndexAnnotation, text)
	pod.Annotations = withEntry(model.Annotations, batchv1.JobCompletionIndexAnnotation, text)
	if perIndex(v.job) {
		f := failuresWith(v.job, v.retained[index])
		pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(int(f.counted))
		if f.ignored > 0 {
			pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(int(f.ignored))
		}
	}
	return &pod
}

// withEntry returns a copy of a map with one more entry.
func withEntry(m map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(m)+3)
	for k, v := range m {
		out[k] = v
	}
	out[key] = value
	return out
}

// longestPrefix is what the server keeps of a generated name's prefix.
const longestPrefix = 63 - 5

// indexedPrefix returns the generateName of an index's pods: "<job>-<index>-", with the Job's name cut where it would push
// out the index.
func indexedPrefix(job, index string) string {
	suffix := "-" + index + "-"
	return job[:min(len(job), max(0, longestPrefix-len(suffix)))] + suffix
}

// indexVariable is the environment variable that tells a container the index of its pod.
const indexVariable = "JOB_COMPLETION_INDEX"

// tellIndex adds the variable to the containers that have none of that name. The kubelet takes its value from a label.
func tellIndex(spec *corev1.PodSpec) {
	value := corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
	}}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if !hasVariable(list[i].Env, indexVariable) {
				list[i].Env = append(list[i].Env, value)
			}
		}
	}
}

func hasVariable(env []corev1.EnvVar, name string) bool {
	for i := range env {
		if env[i].Name == name {
			return true
		}
	}
	return false
}
