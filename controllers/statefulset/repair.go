package statefulset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// makeClaims creates the claims that an ordinal lacks. It fails if a claim is being deleted, as that has to be gone before
// it can be created again.
func (r *reconciler) makeClaims(ctx context.Context, s *state, t task) error {
	var errs []error
	pod := podName(s.set.Name, t.ordinal)
	for _, claim := range t.claims.create {
		_, err := client.Create(ctx, r.client, claim, client.Brief)
		if err != nil {
			errs = append(errs, fmt.Errorf("failed to create PVC %s: %w", claim.Name, err))
		}
		if !apierrors.IsAlreadyExists(err) {
			r.events.claim(s.set, claim.Name, pod, err)
		}
	}
	for _, name := range t.claims.going {
		errs = append(errs, fmt.Errorf("pvc %s is being deleted", name))
	}
	if len(errs) == 0 {
		return nil
	}
	return claimErrors{errors.Join(errs...), errs}
}

// claimErrors joins errors in the form that users know from events: several are put in brackets.
type claimErrors struct {
	error
	all []error
}

// Error implements error.
func (e claimErrors) Error() string { return utilerrors.NewAggregate(e.all).Error() }

// Unwrap gives the errors to those who ask for their kinds.
func (e claimErrors) Unwrap() []error { return e.all }

// reown gives claims the owners that the policy asks for.
func (r *reconciler) reown(ctx context.Context, s *state, w claimWork) error {
	for _, name := range w.conflicts {
		r.events.conflict(s.set, name)
	}
	for _, change := range w.reown {
		next := change.claim.DeepCopy()
		next.OwnerReferences = change.owners
		if _, err := client.Update(ctx, r.client, next, client.Brief); err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", next.Name, err)
		}
	}
	return nil
}

// supply provides a pod that has not started with the claims that it waits for.
func (r *reconciler) supply(ctx context.Context, s *state, t task) error {
	if err := r.makeClaims(ctx, s, t); err != nil {
		return fmt.Errorf("provide claims for pod %s: %w", klog.KObj(t.pod), err)
	}
	if err := r.reown(ctx, s, t.claims); err != nil {
		r.events.pod(s.set, updating, t.pod.Name, err)
		return err
	}
	return nil
}

// repair gives a pod back its labels and claims, and its claims their owners.
func (r *reconciler) repair(ctx context.Context, s *state, t task) error {
	err := r.mend(ctx, s, t)
	if apierrors.IsNotFound(err) {
		return nil // it has gone meanwhile, and that wakes the set
	}
	r.events.pod(s.set, updating, t.pod.Name, err)
	if err != nil {
		return fmt.Errorf("repair pod %s: %w", klog.KObj(t.pod), err)
	}
	return nil
}

func (r *reconciler) mend(ctx context.Context, s *state, t task) error {
	change := podPatch{}
	change.Metadata.UID = t.pod.UID
	if !identified(t.pod) {
		change.Metadata.Labels = identityLabels(s.set.Name, t.ordinal)
	}
	if !stored(s.set, t.pod, t.ordinal) {
		change.Spec = &podVolumes{volumesInstead(claimVolumes(s.set, t.ordinal))}
		if err := r.makeClaims(ctx, s, t); err != nil {
			return err
		}
	}
	if t.reown {
		if err := r.reown(ctx, s, t.claims); err != nil {
			return err
		}
	}
	if !t.repair {
		return nil
	}
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = client.PatchObject(ctx, r.client, t.pod, client.StrategicPatch(data), client.Brief)
	return err
}

// podPatch is a strategic merge patch of a pod. The UID is a precondition: it cannot change.
type podPatch struct {
	Metadata struct {
		UID    types.UID         `json:"uid"`
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec *podVolumes `json:"spec,omitempty"`
}

// podVolumes are merged by name. The server always refuses them, as the volumes of a pod cannot change. The refusal, which
// becomes an event, tells the user that the pod has to be deleted; the controller does not do that by itself.
type podVolumes struct {
	Volumes []volumePatch `json:"volumes"`
}

// volumePatch replaces a volume of that name. Without $retainKeys, a volume of another type would be merged into one that
// has two types, which the server refuses with an unhelpful message.
type volumePatch struct {
	Retain []string `json:"$retainKeys"`
	corev1.Volume
}

func volumesInstead(volumes []corev1.Volume) []volumePatch {
	out := make([]volumePatch, len(volumes))
	for i, v := range volumes {
		out[i] = volumePatch{[]string{"name", "persistentVolumeClaim"}, v}
	}
	return out
}
