package garbagecollector

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// api is what the collector asks of the server and of the cache. References carry the namespace where the kind has one.
type api interface {
	// Namespaced reports whether objects of a kind live in namespaces.
	Namespaced(graph.Kind) (bool, error)
	// Strategic reports whether a kind is built in, so that strategic merge patches are likely to be understood.
	Strategic(graph.Kind) bool
	// Cached returns the object of that kind and name as the watch has it.
	Cached(graph.Ref) (metav1.Object, bool)
	// Get reads an object from the server. Where its kind has several places it is looked for in all of them.
	Get(context.Context, graph.Ref) (*metav1.PartialObjectMetadata, error)
	// In reads all objects of a kind in a namespace from the server.
	In(context.Context, graph.Kind, string) ([]*metav1.PartialObjectMetadata, error)
	// Delete deletes an object if it has the UID of ref and, unless that is empty, the version.
	Delete(ctx context.Context, ref graph.Ref, version string, policy metav1.DeletionPropagation) error
	// Patch changes the metadata of an object.
	Patch(context.Context, graph.Ref, client.Patch) (*metav1.PartialObjectMetadata, error)
	// Forget drops what is known of where a kind lives.
	Forget(graph.Kind)
}

// cluster is the api of a running cluster.
type cluster struct {
	live  *client.Client
	cache *cache.Cache
	twins *twins
}

// Namespaced implements api.
func (c cluster) Namespaced(k graph.Kind) (bool, error) { return c.live.Namespaced(k.GVK()) }

// Strategic implements api.
func (c cluster) Strategic(k graph.Kind) bool { return c.live.Scheme().Recognizes(k.GVK()) }

// Forget implements api.
func (c cluster) Forget(k graph.Kind) { c.live.Forget(k.GVK()) }

// Cached implements api.
func (c cluster) Cached(ref graph.Ref) (metav1.Object, bool) {
	i := c.cache.Existing(ref.Kind.GVK(), cache.MetadataOnly)
	if i == nil {
		return nil, false
	}
	return i.Get(keyOf(ref))
}

// Get implements api.
func (c cluster) Get(ctx context.Context, ref graph.Ref) (*metav1.PartialObjectMetadata, error) {
	gvk := ref.Kind.GVK()
	obj, err := client.Get[metav1.PartialObjectMetadata](ctx, c.live, keyOf(ref), client.Kind(gvk))
	if err == nil && obj.UID == ref.UID || client.IgnoreNotFound(err) != nil {
		return obj, err
	}
	for at := range c.twins.of(gvk) {
		if at.namespaced != (ref.Namespace != "") {
			continue
		}
		gvr := gvk.GroupVersion().WithResource(at.resource)
		twin, err := client.Get[metav1.PartialObjectMetadata](ctx, c.live, keyOf(ref), client.Kind(gvk), client.Resource(gvr, at.namespaced))
		if err == nil && twin.UID == ref.UID || client.IgnoreNotFound(err) != nil {
			return twin, err
		}
	}
	return obj, err
}

// In implements api.
func (c cluster) In(ctx context.Context, k graph.Kind, namespace string) ([]*metav1.PartialObjectMetadata, error) {
	return client.List[metav1.PartialObjectMetadata](ctx, c.live, client.Kind(k.GVK()), client.InNamespace(namespace))
}

// Delete implements api.
func (c cluster) Delete(ctx context.Context, ref graph.Ref, version string, policy metav1.DeletionPropagation) error {
	opts := []client.Option{client.IfUID(ref.UID)}
	if version != "" {
		opts = append(opts, client.IfVersion(version))
	}
	switch policy {
	case metav1.DeletePropagationOrphan:
		opts = append(opts, client.Orphan)
	case metav1.DeletePropagationForeground:
		opts = append(opts, client.Foreground)
	case metav1.DeletePropagationBackground:
		opts = append(opts, client.Background)
	}
	return client.Delete(ctx, c.live, nameOnly(ref), opts...)
}

// Patch implements api.
func (c cluster) Patch(ctx context.Context, ref graph.Ref, p client.Patch) (*metav1.PartialObjectMetadata, error) {
	return client.PatchObject(ctx, c.live, nameOnly(ref), p)
}

func keyOf(ref graph.Ref) client.Key { return client.Key{Namespace: ref.Namespace, Name: ref.Name} }

func nameOnly(ref graph.Ref) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
	o.SetGroupVersionKind(ref.Kind.GVK())
	return o
}

var (
	// errMisplaced marks a cluster-scoped object whose owner would have to be in a namespace.
	errMisplaced = errors.New("the owner is of a namespaced kind and the object is in no namespace")
	// errUnserved marks a kind that the mapper knows and the server no longer serves.
	errUnserved = errors.New("the server does not serve the kind")
)

// unserved reports whether an error says that the server does not have the kind.
func unserved(err error) bool { return errors.Is(err, errUnserved) || meta.IsNoMatchError(err) }

// absentError says that the server has no object of that UID under that name.
type absentError struct{ ref graph.Ref }

func (e absentError) Error() string { return fmt.Sprintf("%s does not exist", e.ref) }

// place returns a reference with its namespace removed if its kind is cluster-scoped.
func (r *reconciler) place(ref graph.Ref) (graph.Ref, error) {
	namespaced, err := r.api.Namespaced(ref.Kind)
	switch {
	case err != nil:
		return ref, fmt.Errorf("find the resource of %s: %w", ref, err)
	case !namespaced:
		ref.Namespace = ""
	case ref.Namespace == "":
		return ref, errMisplaced
	}
	return ref, nil
}

// read reads an object live. The error is an absentError where there is none of that UID.
func (r *reconciler) read(ctx context.Context, ref graph.Ref) (*metav1.PartialObjectMetadata, error) {
	obj, err := r.api.Get(ctx, ref)
	if err != nil {
		return nil, r.explain("read", ref, err)
	}
	if obj.UID != ref.UID {
		return nil, absentError{ref}
	}
	return obj, nil
}

// explain adds to an error what was attempted. It tells a 404 for the object from one for the whole path: only the former
// proves that the object does not exist.
func (r *reconciler) explain(verb string, ref graph.Ref, err error) error {
	switch {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("%s %s: %w", verb, ref, err)
	case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		r.api.Forget(ref.Kind)
		return fmt.Errorf("%s %s: %w: %w", verb, ref, errUnserved, err)
	}
	return absentError{ref}
}
