package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsChanged is the step that sends a JSON merge patch to each pod, in the order of subject.pods. An empty one is not sent.
func podsChanged(text string, patch func(i int, pod corev1.Pod) string) step {
	return step{text: "pods: " + text, do: func(ctx context.Context, s *subject) error {
		pods, err := s.pods(ctx)
		if err != nil {
			return err
		}
		var failed error
		for i, pod := range pods {
			if p := patch(i, pod); p != "" {
				if err := s.patch(ctx, "pods", pod.Name, p); err != nil && !apierrors.IsNotFound(err) {
					failed = fmt.Errorf("pod %d: %w", i, err)
				}
			}
		}
		return failed
	}}
}

// podsPatched is podsChanged with the same patch for each pod.
func podsPatched(format string, args ...any) step {
	patch := fmt.Sprintf(format, args...)
	return podsChanged("patch "+patch, func(int, corev1.Pod) string { return patch })
}

// podPatched is the step that sends a JSON merge patch to one pod, if there are so many.
func podPatched(n int, format string, args ...any) step {
	patch := fmt.Sprintf(format, args...)
	return podsChanged(fmt.Sprintf("patch %d %s", n, patch), func(i int, _ corev1.Pod) string {
		if i != n {
			return ""
		}
		return patch
	})
}

// podRefChanged is the step that changes the first owner reference of one pod. more is added to the pod's metadata.
func podRefChanged(n int, more, text string, change func(ref map[string]any)) step {
	return podsChanged(fmt.Sprintf("the first owner of %d %s", n, text), func(i int, pod corev1.Pod) string {
		if i != n || len(pod.OwnerReferences) == 0 {
			return ""
		}
		var ref map[string]any
		fromJSON(toJSON(pod.OwnerReferences[0]), &ref)
		change(ref)
		return fmt.Sprintf(`{"metadata":{"ownerReferences":[%s],%s}}`, toJSON(ref), more)
	})
}

// podDeleted is the step that deletes one pod, if there are so many.
func podDeleted(n int) step {
	return step{text: fmt.Sprintf("pods: delete %d", n), do: func(ctx context.Context, s *subject) error {
		pods, err := s.pods(ctx)
		if err != nil || n >= len(pods) {
			return err
		}
		return s.delete(ctx, "pods", pods[n].Name, "")
	}}
}

// ownedBare is the step that creates a pod that a ConfigMap owns, and may control.
func ownedBare(pod *corev1.Pod, controls bool) step {
	return step{text: fmt.Sprintf("create a pod owned by a ConfigMap, controlled %v: %s", controls, toJSON(pod)), do: func(ctx context.Context, s *subject) error {
		ref, err := s.owner(ctx, controls)
		if err != nil {
			return err
		}
		pod := pod.DeepCopy()
		pod.OwnerReferences = []metav1.OwnerReference{ref}
		return s.create(ctx, "pods", pod)
	}}
}

// givenOwner is the step that makes a ConfigMap the only owner of an object. If no name is given it is one of the pods.
func givenOwner(resource, name string, n int, more string, controls bool) step {
	return step{text: fmt.Sprintf("%s %s %d is owned by a ConfigMap, controlled %v", resource, name, n, controls), do: func(ctx context.Context, s *subject) error {
		ref, err := s.owner(ctx, controls)
		if err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[%s],%s}}`, toJSON(ref), more)
		if name != "" {
			return s.patch(ctx, resource, name, patch)
		}
		return podPatched(n, "%s", patch).do(ctx, s)
	}}
}

// owner returns a reference to a ConfigMap that is there.
func (s *subject) owner(ctx context.Context, controls bool) (metav1.OwnerReference, error) {
	made, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, "owner", metav1.GetOptions{})
	}
	if err != nil {
		return metav1.OwnerReference{}, err
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: made.UID, Controller: &controls}, nil
}

// quota is the step that lets n more pods be created. No controller keeps count of those that go.
func quota(n int) step {
	return step{text: fmt.Sprintf("quota for %d more pods", n), do: func(ctx context.Context, s *subject) error {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
		if err := s.create(ctx, "resourcequotas", q); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return s.patch(ctx, "resourcequotas", "pods", fmt.Sprintf(`{"status":{"hard":{"pods":"%d"},"used":{"pods":"0"}}}`, n), "status")
	}}
}

func toJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is of a type of the API
	}
	return string(text)
}

func fromJSON(text string, into any) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		panic(err) // it comes from toJSON
	}
}
