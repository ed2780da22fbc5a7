package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Patch is a change to an object, made by one of the constructors below.
type Patch struct {
	Type types.PatchType
	Data []byte
}

// MergePatch is a JSON merge patch (RFC 7386).
func MergePatch(data []byte) Patch { return Patch{types.MergePatchType, data} }

// StrategicPatch is a Kubernetes strategic merge patch; built-in kinds only.
func StrategicPatch(data []byte) Patch { return Patch{types.StrategicMergePatchType, data} }

// ElementOrder returns the value of the directive $setElementOrder for a list in a strategic merge patch: the values of the
// merge key of the elements that the list has, then of those that the patch adds. Without the directive, a merge puts
// added elements first.
func ElementOrder[E any, V comparable](mergeKey string, value func(E) V, has, patched []E) []map[string]V {
	order := make([]map[string]V, 0, len(has)+len(patched))
	for _, e := range has {
		order = append(order, map[string]V{mergeKey: value(e)})
	}
	for _, e := range patched {
		if !slices.ContainsFunc(has, func(h E) bool { return value(h) == value(e) }) {
			order = append(order, map[string]V{mergeKey: value(e)})
		}
	}
	return order
}

// JSONPatch is a JSON patch (RFC 6902).
func JSONPatch(data []byte) Patch { return Patch{types.JSONPatchType, data} }

// ApplyPatch is a server-side apply; it needs the FieldManager option.
func ApplyPatch(data []byte) Patch { return Patch{types.ApplyYAMLPatchType, data} }

// Create stores a new object and returns it as stored. With the Subresource option the object is posted there, to the
// parent of the same namespace and name; the Kind option names the parent's kind where it is not that of the object, as
// for an eviction of a pod or a token of a service account.
func Create[T any, P Ptr[T]](ctx context.Context, c *Client, obj P, opts ...Option) (P, error) {
	call := newCall(opts)
	r, err := c.resourceOf(obj, call)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", KeyOf(obj), err)
	}
	req := r.begin(r.rest.Post(), obj.GetNamespace(), r.namespaced)
	if call.subresource != "" {
		req = req.Name(obj.GetName()).SubResource(call.subresource)
	}
	req = c.params(req, call).Body(runtime.Object(obj))
	out := P(new(T))
	return out, c.do(ctx, r, call, act{verb: "create"}, obj, req, out)
}

// Update replaces an object, or with the Status or Subresource option that part of it, and returns it as stored.
// It fails with a conflict if the object's resourceVersion is not the current one. An object of a kind whose cached
// form lacks fields is refused: patch it instead.
func Update[T any, P Ptr[T]](ctx context.Context, c *Client, obj P, opts ...Option) (P, error) {
	call := newCall(opts)
	r, err := c.resourceOf(obj, call)
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", KeyOf(obj), err)
	}
	if c.cache != nil && (call.subresource == "" || call.subresource == "status") && c.cache.Slimmed(r.gvk, obj) {
		return nil, fmt.Errorf("update %s %s: the cached object lacks fields that an update would erase; use a patch, or read it live", r.gvk.Kind, KeyOf(obj))
	}
	req := r.one(r.rest.Put(), KeyOf(obj))
	if call.subresource != "" {
		req = req.SubResource(call.subresource)
	}
	req = c.params(req, call).Body(runtime.Object(obj))
	out := P(new(T))
	return out, c.do(ctx, r, call, act{verb: "update"}, obj, req, out)
}

// UpdateStatus replaces the status of an object and returns it as stored. The server keeps the spec whatever it is sent:
// obj needs its metadata and the status only. A spec out of a cache must be left out, or copied deeply: encoding writes
// into its quantities, which others read.
func UpdateStatus[T any, P Ptr[T]](ctx context.Context, c *Client, obj P, opts ...Option) (P, error) {
	return Update[T](ctx, c, obj, append(slices.Clip(opts), Status)...)
}

// PatchObject changes an object, or with the Status or Subresource option that part of it, and returns it as stored.
// Only the kind, namespace, name and UID of obj are read.
func PatchObject[T any, P Ptr[T]](ctx context.Context, c *Client, obj P, p Patch, opts ...Option) (P, error) {
	call := newCall(opts)
	r, err := c.resourceOf(obj, call)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", KeyOf(obj), err)
	}
	req := r.one(r.rest.Patch(p.Type), KeyOf(obj))
	if call.subresource != "" {
		req = req.SubResource(call.subresource)
	}
	req = c.params(req, call).Body(p.Data)
	out := P(new(T))
	return out, c.do(ctx, r, call, act{"patch", &p}, obj, req, out)
}

// Delete deletes an object. Only its kind, namespace, name and UID are read. Without IfUID, the delete also hits a later
// object of the same name.
func Delete(ctx context.Context, c *Client, obj Object, opts ...Option) error {
	call := newCall(opts)
	r, err := c.resourceOf(obj, call)
	if err != nil {
		return fmt.Errorf("delete %s: %w", KeyOf(obj), err)
	}
	call.del.DryRun = c.dry()
	// If the object stays for a while the server returns it. Nobody reads that, so ask for no more than its metadata.
	req := c.params(r.one(r.rest.Delete(), KeyOf(obj)), call).SetHeader("Accept", acceptMetadata)
	err = r.deleteBody(req, call.del).Do(ctx).Error()
	gone := isGone(err, obj)
	if err != nil && !IsOutcomeUnknown(err) && !gone {
		return err
	}
	switch {
	case !c.dryRun:
		call.note(ctx, Write{GVK: r.gvk, Key: KeyOf(obj), UID: obj.GetUID(), Deleted: true, Gone: gone, Unknown: err != nil && !gone})
	case err == nil:
		c.noteDry(ctx, r, call, act{verb: "delete"}, obj)
	}
	return err
}

// DeleteAll deletes every object of the kind that the options select (InNamespace, Labels, Fields, Limit, From) with one
// request. The server deletes one after the other and by name, and stops at the first that it refuses to delete.
func DeleteAll[T any, P Ptr[T]](ctx context.Context, c *Client, opts ...Option) error {
	call, one := newCall(opts), P(new(T))
	gvk, err := c.readGVK(one, call)
	if err != nil {
		return err
	}
	r, err := c.kinds.resourceAt(gvk, formOf(one), call.place)
	if err != nil {
		return fmt.Errorf("delete collection of %s: %w", gvk.Kind, err)
	}
	call.del.DryRun = c.dry()
	lo := &metav1.ListOptions{LabelSelector: call.labels, FieldSelector: call.fields, Limit: call.limit, Continue: call.token}
	req := c.params(r.many(r.rest.Delete(), call.namespace).VersionedParams(lo, metav1.ParameterCodec), call)
	err = r.deleteBody(req, call.del).Do(ctx).Error()
	if c.dryRun && err == nil {
		one.SetNamespace(call.namespace)
		one.SetName("all that match")
		c.noteDry(ctx, r, call, act{verb: "deletecollection"}, one)
	}
	return err
}

// IgnoreNotFound returns nil for a NotFound error and any other error as it is.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// resourceOf returns where an object is written: the resource of its kind, or of the kind that the call names as the
// parent of a subresource.
func (c *Client) resourceOf(obj Object, call call) (*resource, error) {
	gvk, err := c.kinds.gvkFor(obj)
	if err != nil {
		return nil, err
	}
	if call.subresource != "" && call.gvk.Kind != "" {
		gvk = call.gvk
	}
	return c.kinds.resourceAt(gvk, formOf(obj), call.place)
}

// params adds the query of a write. Most writes have none, so it is set by hand: the codec would inspect options each time.
func (c *Client) params(req *rest.Request, call call) *rest.Request {
	if c.dryRun {
		req = req.Param("dryRun", metav1.DryRunAll)
	}
	if call.manager != "" {
		req = req.Param("fieldManager", call.manager)
	}
	if call.force != nil {
		req = req.Param("force", strconv.FormatBool(*call.force))
	}
	return req
}

func (c *Client) dry() []string {
	if c.dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// do sends a write, decodes the answer into out and notes what the cache has to show for it.
func (c *Client) do(ctx context.Context, r *resource, call call, a act, obj Object, req *rest.Request, out Object) error {
	var err error
	if call.brief && r.form == structured {
		err = doBrief(ctx, req, out)
	} else {
		err = r.decode(req.Do(ctx), out)
	}
	if isGone(err, obj) && !c.dryRun {
		call.note(ctx, Write{GVK: r.gvk, Key: KeyOf(obj), UID: obj.GetUID(), Deleted: true, Gone: true})
	}
	if c.dryRun && err == nil {
		setKind(out, r.gvk)
		c.noteDry(ctx, r, call, a, obj)
	}
	if c.dryRun || err != nil && !IsOutcomeUnknown(err) {
		return err
	}
	w := Write{GVK: r.gvk, Key: KeyOf(obj), UID: obj.GetUID(), Labels: obj.GetLabels(), Unknown: err != nil}
	if err == nil {
		setKind(out, r.gvk)
		w.Key, w.UID, w.ResourceVersion = KeyOf(out), out.GetUID(), out.GetResourceVersion()
		w.Gone = released(r.gvk, out)
		w.Deleted = w.Gone
		if !call.brief {
			w.Labels = out.GetLabels()
		}
	}
	call.note(ctx, w)
	return err
}

// isGone reports whether the server's answer means that the object that the writer knows is gone. A cache that still shows
// it lags behind, just as after the writer's own delete. A 404 for the whole resource says nothing about the object.
func isGone(err error, obj Object) bool {
	return apierrors.IsNotFound(err) && obj.GetUID() != "" && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// released reports whether the write that returned obj was its last: an object that is being deleted, has no grace period
// left and has lost its last finalizer is gone, and is returned in the version that it had before. A namespace also has
// finalizers in its spec.
func released(gvk schema.GroupVersionKind, obj Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return gvk.GroupKind() != (schema.GroupKind{Kind: "Namespace"}) && obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// IsOutcomeUnknown reports whether a failed write may have been stored all the same. The server's refusals are certain;
// its timeouts and connection errors are not.
func IsOutcomeUnknown(err error) bool {
	if meta.IsNoMatchError(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !errors.Is(err, context.Canceled)
	}
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err)
}

// IsNamespaceTerminating reports whether the server refused a create because the namespace is being deleted.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// IgnoreConflict returns nil for a Conflict error, which a failed precondition is too, and any other error as it is.
func IgnoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
