package kittest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery/kit/client"
)

// write is one write in progress: to a resource, by a caller, perhaps a dry run.
type write struct {
	api    *API
	r      *resource
	dryRun bool
	// trusted callers, which is the test itself, write status and spec together and need no resourceVersion.
	trusted bool
}

func (w *write) table() *table { return w.api.store.table(w.r.groupResource()) }

// put stores an object, or in a dry run pretends to.
func (w *write) put(o *unstructured.Unstructured) *unstructured.Unstructured {
	if w.dryRun {
		return o
	}
	return w.api.store.put(w.r.groupResource(), o)
}

func (w *write) remove(key client.Key) *unstructured.Unstructured {
	if w.dryRun {
		return w.table().objects[key]
	}
	return w.api.store.remove(w.r.groupResource(), key)
}

func (w *write) current(key client.Key) (*unstructured.Unstructured, error) {
	if o := w.table().objects[key]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(w.r.groupResource(), key.Name)
}

// create stores a new object.
func (w *write) create(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s := w.api.store
	if o.GetName() == "" {
		if o.GetGenerateName() == "" {
			return nil, invalid(w.r, "", field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
		}
		o.SetName(o.GetGenerateName() + s.newSuffix())
	}
	if o.GetResourceVersion() != "" && !w.trusted {
		return nil, apierrors.NewInternalError(errors.New("resourceVersion should not be set on objects to be created"))
	}
	key := client.KeyOf(o)
	if w.r.namespaced && key.Namespace == "" {
		return nil, apierrors.NewBadRequest("an empty namespace may not be set during creation")
	}
	if err := w.namespaceTakes(key); err != nil {
		return nil, err
	}
	if w.table().objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(w.r.groupResource(), key.Name)
	}
	if !w.trusted || o.GetUID() == "" {
		o.SetUID(s.newUID())
	}
	if !w.trusted || o.GetCreationTimestamp().Time.IsZero() {
		o.SetCreationTimestamp(now())
	}
	if !w.trusted {
		o.SetDeletionTimestamp(nil)
		o.SetDeletionGracePeriodSeconds(nil)
		if w.r.status && w.r.gvk.Kind != "Node" {
			delete(o.Object, "status")
		}
	}
	if w.r.generation && o.GetGeneration() == 0 {
		o.SetGeneration(1)
	}
	setDefaults(w.r, o)
	return w.put(o), nil
}

// namespaceTakes refuses creates in a namespace that is being deleted. A namespace that the test did not create counts as
// existing.
func (w *write) namespaceTakes(key client.Key) error {
	if !w.r.namespaced || w.trusted {
		return nil
	}
	ns := w.api.store.table(schema.GroupResource{Resource: "namespaces"}).objects[client.Key{Name: key.Namespace}]
	if ns == nil || ns.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(w.r.groupResource(), key.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", key.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", key.Namespace), Field: "metadata.namespace",
	})
	return err
}

// update replaces an object, or the part of it that a subresource stands for.
func (w *write) update(o *unstructured.Unstructured, subresource string) (*unstructured.Unstructured, error) {
	key := client.KeyOf(o)
	cur, err := w.current(key)
	if err != nil {
		return nil, err
	}
	if uid := o.GetUID(); uid != "" && uid != cur.GetUID() {
		return nil, conflict(w.r, key, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", uid, cur.GetUID()))
	}
	if v := o.GetResourceVersion(); v != "" && v != cur.GetResourceVersion() && !w.trusted {
		return nil, conflict(w.r, key, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	next := w.merge(cur, o, subresource)
	if err := w.checkFinalizers(cur, next); err != nil {
		return nil, err
	}
	if w.r.generation && specChanged(cur, next) {
		next.SetGeneration(cur.GetGeneration() + 1)
	}
	next.SetResourceVersion(cur.GetResourceVersion())
	if finished(w.r, next) {
		w.remove(key)
		return next, nil // in its old version, as from the real server; watches only see the deletion
	}
	if equality.Semantic.DeepEqual(cur.Object, next.Object) {
		return cur, nil
	}
	return w.put(next), nil
}

// merge returns the object to store: a call only changes its own part, and nobody changes what the server owns.
func (w *write) merge(cur, o *unstructured.Unstructured, subresource string) *unstructured.Unstructured {
	next := o.DeepCopy()
	switch {
	case w.trusted:
	case subresource == "status" || subresource == "approval":
		next = cur.DeepCopy()
		setField(next, o.Object["status"], "status")
		if w.r.typed {
			if w.r.gvk.Kind != "Deployment" {
				next.SetLabels(o.GetLabels())
			}
			next.SetAnnotations(o.GetAnnotations())
			next.SetFinalizers(o.GetFinalizers())
		}
	case subresource == "finalize":
		next = cur.DeepCopy()
		wanted, _, _ := unstructured.NestedFieldCopy(o.Object, "spec", "finalizers")
		setField(next, wanted, "spec", "finalizers")
	default:
		if w.r.status {
			setField(next, cur.Object["status"], "status")
		}
		if w.r.gvk.Kind == "Namespace" {
			kept, _, _ := unstructured.NestedFieldCopy(cur.Object, "spec", "finalizers")
			setField(next, kept, "spec", "finalizers")
		}
	}
	next.SetUID(cur.GetUID())
	next.SetCreationTimestamp(cur.GetCreationTimestamp())
	next.SetDeletionTimestamp(cur.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(cur.GetDeletionGracePeriodSeconds())
	if cur.GetGeneration() != 0 && !w.trusted || next.GetGeneration() == 0 {
		next.SetGeneration(cur.GetGeneration())
	}
	if next.GetGeneration() == 0 {
		unstructured.RemoveNestedField(next.Object, "metadata", "generation")
	}
	return next
}

// checkFinalizers refuses new finalizers on an object that is being deleted.
func (w *write) checkFinalizers(cur, next *unstructured.Unstructured) error {
	if cur.GetDeletionTimestamp() == nil {
		return nil
	}
	for _, f := range next.GetFinalizers() {
		if !slices.Contains(cur.GetFinalizers(), f) {
			return invalid(w.r, cur.GetName(), field.Forbidden(field.NewPath("metadata", "finalizers"),
				fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers []string{%q}", f)))
		}
	}
	return nil
}

// finished reports whether an object that is being deleted can be removed.
func finished(r *resource, o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 {
		return false
	}
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	return len(namespaceFinalizers(r, o)) == 0
}

func namespaceFinalizers(r *resource, o *unstructured.Unstructured) []string {
	if r.gvk.Kind != "Namespace" {
		return nil
	}
	f, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "finalizers")
	return f
}

// delete deletes an object as far as its finalizers and grace period allow. It returns the object, and whether it is gone or
// only marked for deletion.
func (w *write) delete(key client.Key, o metav1.DeleteOptions) (left *unstructured.Unstructured, gone bool, err error) {
	cur, err := w.current(key)
	if err != nil {
		return nil, false, err
	}
	if err := preconditions(w.r, cur, o.Preconditions); err != nil {
		return nil, false, err
	}
	next := cur.DeepCopy()
	propagate(next, o)
	grace := gracePeriod(w.r, cur, o)
	waits := grace > 0 || len(next.GetFinalizers()) > 0 || len(namespaceFinalizers(w.r, next)) > 0
	if !waits {
		return w.remove(key), true, nil
	}
	if had := cur.GetDeletionGracePeriodSeconds(); cur.GetDeletionTimestamp() == nil || had != nil && grace < *had {
		next.SetDeletionTimestamp(&metav1.Time{Time: now().Add(time.Duration(grace) * time.Second)})
		next.SetDeletionGracePeriodSeconds(&grace)
	}
	if cur.GetDeletionTimestamp() == nil && cur.GetGeneration() > 0 {
		next.SetGeneration(cur.GetGeneration() + 1)
	}
	if w.r.gvk.Kind == "Namespace" {
		setField(next, string(corev1.NamespaceTerminating), "status", "phase")
	}
	if reflect.DeepEqual(cur.Object, next.Object) {
		return cur, false, nil
	}
	return w.put(next), false, nil
}

func preconditions(r *resource, cur *unstructured.Unstructured, p *metav1.Preconditions) error {
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != cur.GetUID():
		return conflict(r, client.KeyOf(cur), fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, cur.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != cur.GetResourceVersion():
		return conflict(r, client.KeyOf(cur), fmt.Errorf("precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, cur.GetResourceVersion()))
	}
	return nil
}

// propagate sets the finalizers for a deletion propagation policy.
func propagate(o *unstructured.Unstructured, opts metav1.DeleteOptions) {
	policy := opts.PropagationPolicy
	if policy == nil {
		return
	}
	rest := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
	switch *policy {
	case metav1.DeletePropagationForeground:
		rest = append(rest, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		rest = append(rest, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationBackground:
	}
	o.SetFinalizers(rest)
}

// gracePeriod returns the grace period in seconds: only a pod that runs on a node has one.
func gracePeriod(r *resource, o *unstructured.Unstructured, opts metav1.DeleteOptions) int64 {
	if r.gvk.Kind != "Pod" || r.gvk.Group != "" {
		return 0
	}
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if node == "" || phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed) {
		return 0
	}
	if opts.GracePeriodSeconds != nil {
		return *opts.GracePeriodSeconds
	}
	if s, ok, _ := unstructured.NestedInt64(o.Object, "spec", "terminationGracePeriodSeconds"); ok {
		return s
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// setDefaults fills in the few fields that controllers rely on the server for.
func setDefaults(r *resource, o *unstructured.Unstructured) {
	switch r.gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		defaultField(o, string(corev1.PodPending), "status", "phase")
		defaultField(o, string(corev1.RestartPolicyAlways), "spec", "restartPolicy")
		defaultField(o, int64(corev1.DefaultTerminationGracePeriodSeconds), "spec", "terminationGracePeriodSeconds")
	case schema.GroupKind{Kind: "Namespace"}:
		defaultField(o, []any{string(corev1.FinalizerKubernetes)}, "spec", "finalizers")
		defaultField(o, string(corev1.NamespaceActive), "status", "phase")
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1.LabelMetadataName] = o.GetName()
		o.SetLabels(labels)
	}
}

func defaultField(o *unstructured.Unstructured, value any, path ...string) {
	if _, ok, _ := unstructured.NestedFieldNoCopy(o.Object, path...); !ok {
		setField(o, value, path...)
	}
}

// setField sets or, with nil, removes a field.
func setField(o *unstructured.Unstructured, value any, path ...string) {
	if value == nil {
		unstructured.RemoveNestedField(o.Object, path...)
		return
	}
	_ = unstructured.SetNestedField(o.Object, runtime.DeepCopyJSONValue(value), path...)
}

// specChanged compares what counts for the generation: everything except metadata and status.
func specChanged(a, b *unstructured.Unstructured) bool {
	for _, o := range [][2]*unstructured.Unstructured{{a, b}, {b, a}} {
		for k, v := range o[0].Object {
			if k != "metadata" && k != "status" && !equality.Semantic.DeepEqual(v, o[1].Object[k]) {
				return true
			}
		}
	}
	return false
}

func conflict(r *resource, key client.Key, err error) error {
	return apierrors.NewConflict(r.groupResource(), key.Name, err)
}

func invalid(r *resource, name string, err *field.Error) error {
	return apierrors.NewInvalid(r.gvk.GroupKind(), name, field.ErrorList{err})
}
