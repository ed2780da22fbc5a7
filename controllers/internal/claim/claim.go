package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// patchesAtOnce bounds the concurrent adoptions and releases of one owner.
const patchesAtOnce = 16

// Claimer claims objects for one owner. Each Claim calls Recheck at most once.
type Claimer[P client.Object] struct {
	// Owner controls the claimed objects. Required.
	Owner metav1.Object
	// Kind is the owner's kind, as owner references name it. Required.
	Kind schema.GroupVersionKind
	// Selector matches the labels of the objects that the owner wants. Required.
	Selector labels.Selector
	// Filter further narrows what the owner wants; nil wants all that Selector matches.
	Filter func(P) bool
	// Recheck returns an error if the owner may not adopt; it is called once before the first adoption. See Live.
	Recheck func(ctx context.Context) error
	// Patch writes to an object. Required. See Patches.
	Patch func(ctx context.Context, obj P, p client.Patch) error
	// Adopt, if given, makes the adoptions in place of Patch, and what it returns takes the place of the adopted object.
	// It is for owners that write to what they have just adopted. See Adoptions.
	Adopt func(ctx context.Context, obj P, p client.Patch) (P, error)
	// Finalizers are added to objects that are adopted and removed from those that are released.
	Finalizers []string
}

// verdict is what is to happen to one object.
type verdict int

const (
	leave verdict = iota
	keep
	adopt
	release
)

// Claim makes the adoptions and releases that are due and returns, in their order, the objects that the owner controls
// then. If some patches fail it returns the result of the others and the errors; Claim has to be called again then. An
// object that has gone meanwhile is left out without an error. An owner that is being deleted only keeps what it has.
func (c *Claimer[P]) Claim(ctx context.Context, objs []P) ([]P, error) {
	var adopts, releases, claimed []P
	for _, obj := range objs {
		switch c.judge(obj) {
		case keep:
			if claimed == nil {
				claimed = make([]P, 0, len(objs))
			}
			claimed = append(claimed, obj)
		case adopt:
			adopts = append(adopts, obj)
		case release:
			releases = append(releases, obj)
		}
	}
	if adopts == nil && releases == nil {
		return claimed, nil
	}
	releaseErr := c.release(ctx, releases)
	adopted, adoptErr := c.adopt(ctx, adopts)
	return append(claimed, adopted...), errors.Join(releaseErr, adoptErr)
}

// judge decides what is to happen to an object, from the cached state alone.
func (c *Claimer[P]) judge(obj P) verdict {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref != nil && ref.UID != c.Owner.GetUID() {
		return leave
	}
	wanted, going := c.wants(obj), c.Owner.GetDeletionTimestamp() != nil
	switch {
	case ref != nil && wanted:
		return keep
	case ref != nil && !going:
		return release
	case ref != nil, !wanted, going, obj.GetDeletionTimestamp() != nil:
		return leave
	case c.Owner.GetNamespace() != "" && c.Owner.GetNamespace() != obj.GetNamespace():
		return leave
	}
	return adopt
}

func (c *Claimer[P]) wants(obj P) bool {
	return c.Selector.Matches(labels.Set(obj.GetLabels())) && (c.Filter == nil || c.Filter(obj))
}

// adopt makes the owner the controller of the objects and returns those that it got. The server refuses if another owner
// was faster.
func (c *Claimer[P]) adopt(ctx context.Context, objs []P) ([]P, error) {
	if len(objs) == 0 {
		return nil, nil
	}
	if c.Recheck != nil {
		if err := c.Recheck(ctx); err != nil {
			return nil, fmt.Errorf("adopt %d objects, the first of them %s: %w", len(objs), klog.KObj(objs[0]), err)
		}
	}
	got := make([]bool, len(objs))
	err := kit.Batch(ctx, len(objs), patchesAtOnce, func(ctx context.Context, i int) error {
		stored, err := c.take(ctx, objs[i])
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("adopt %s: %w", klog.KObj(objs[i]), err)
		}
		got[i], objs[i] = true, stored
		return nil
	})
	adopted := objs[:0]
	for i, obj := range objs {
		if got[i] {
			adopted = append(adopted, obj)
		}
	}
	return adopted, err
}

// take makes the owner the controller of one object, and returns it as the claim is to return it.
func (c *Claimer[P]) take(ctx context.Context, obj P) (P, error) {
	p := adoption(c.Owner, c.Kind, obj.GetUID(), c.Finalizers)
	if c.Adopt != nil {
		return c.Adopt(ctx, obj, p)
	}
	return obj, c.Patch(ctx, obj, p)
}

// release removes the references to the owner from the objects. An object that is gone, or has been replaced by another
// one, has nothing to release: the server answers NotFound, or Invalid as the UID in the patch cannot change.
func (c *Claimer[P]) release(ctx context.Context, objs []P) error {
	return kit.Batch(ctx, len(objs), patchesAtOnce, func(ctx context.Context, i int) error {
		klog.FromContext(ctx).V(2).Info("Releasing an object that the selector no longer matches",
			"object", klog.KObj(objs[i]), "owner", klog.KObj(c.Owner), "kind", c.Kind.Kind)
		err := c.Patch(ctx, objs[i], Release(objs[i].GetUID(), c.Owner.GetUID(), c.Finalizers...))
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			return nil
		}
		return &releaseError{fmt.Errorf("release %s: %w", klog.KObj(objs[i]), err)}
	})
}

type releaseError struct{ error }

func (e *releaseError) Unwrap() error { return e.error }

// OnlyReleases reports whether nothing but releases has failed in a Claim, or nothing at all. What could not be released is
// not among the claimed objects, and the owner can go on without it.
func OnlyReleases(err error) bool {
	switch e := err.(type) {
	case nil, *releaseError:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !OnlyReleases(one) })
	case interface{ Unwrap() error }:
		return OnlyReleases(e.Unwrap())
	}
	return false
}
