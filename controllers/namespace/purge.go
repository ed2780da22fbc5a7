package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
	"orrery/kit/client"
)

const (
	// finalizerEstimate is how long finalizers are assumed to need.
	finalizerEstimate = 15 * time.Second
	// kindsAtOnce bounds the kinds of one namespace that are emptied concurrently.
	kindsAtOnce = 10
	// pageSize is how many objects are deleted with one request. The server deletes the objects of a request one after the
	// other, so it gets several requests at once.
	pageSize = 100
	// atOnce bounds the requests that delete objects of one kind concurrently.
	atOnce = 20
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// remains is what is left of one kind after a pass.
type remains struct {
	count      int
	finalizers map[string]int // finalizer to number of objects that carry it
	estimate   time.Duration  // how long the rest may need by itself
}

// pass is the outcome of one pass over a namespace.
type pass struct {
	found found

	mu         sync.Mutex // guards the fields below while kinds are emptied concurrently
	left       map[schema.GroupVersionResource]int
	finalizers map[string]int
	failures   []error
	estimate   time.Duration
	podsOnly   bool // the pass ended with the pods; nothing is known of the rest
}

// purge deletes what is in a namespace: the pods, and everything else once they are gone.
func (r *reconciler) purge(ctx context.Context, ns *corev1.Namespace) *pass {
	p := &pass{found: r.kinds.get(time.Now()), left: map[schema.GroupVersionResource]int{}, finalizers: map[string]int{}}
	var rest []kind
	p.podsOnly = p.found.failed != nil // until pods are found among the kinds
	for _, k := range p.found.kinds {
		if k.gvr != podResource {
			rest = append(rest, k)
			continue
		}
		left, err := r.empty(ctx, k, ns, r.podGrace(ns))
		p.add(k, left, err)
		p.podsOnly = err != nil // pods that could not be listed or deleted may be running, and need the rest
	}
	if p.podsOnly || p.podsLeft() {
		p.podsOnly = true
		return p
	}
	groups := byName(rest)
	err := kit.Batch(ctx, len(groups), kindsAtOnce, func(ctx context.Context, i int) error {
		for _, k := range groups[i] {
			left, err := r.empty(ctx, k, ns, 0)
			p.add(k, left, err)
		}
		return nil // failures are collected in the pass, so that none keeps the other kinds from being emptied
	})
	if err != nil { // this process is stopping: kinds that were not reached may have objects
		p.add(kind{}, remains{}, err)
	}
	return p
}

// byName groups kinds whose resources have the same name, since those may be the same objects under two API groups, as
// events are. The kinds of a group are emptied one after the other, so that the second one finds nothing to delete.
func byName(kinds []kind) [][]kind {
	places := map[string]int{}
	var groups [][]kind
	for _, k := range kinds {
		at, known := places[k.gvr.Resource]
		if !known {
			at = len(groups)
			places[k.gvr.Resource] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], k)
	}
	return groups
}

// podGrace returns how long the namespace's pods may still take to stop, 0 once they are overdue.
func (r *reconciler) podGrace(ns *corev1.Namespace) time.Duration {
	var longest int64
	for _, pod := range r.pods.List(ns.Name) {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Spec.TerminationGracePeriodSeconds == nil {
			continue
		}
		longest = max(longest, *pod.Spec.TerminationGracePeriodSeconds)
	}
	allowed := time.Duration(longest) * time.Second
	if time.Since(ns.DeletionTimestamp.Time) >= allowed {
		return 0
	}
	return allowed
}

// empty deletes all objects of a kind and returns what is left. An empty list is the common case and needs one
// request: nothing can be created in the namespace any more.
func (r *reconciler) empty(ctx context.Context, k kind, ns *corev1.Namespace, estimate time.Duration) (remains, error) {
	l, err := r.list(ctx, k, ns.Name)
	if err != nil || l.known && len(l.items) == 0 {
		return remains{estimate: estimate}.unless(err == nil), err
	}
	if err := r.deleteAll(ctx, k, ns.Name, l); err != nil {
		return remains{estimate: estimate}, err
	}
	if l, err = r.list(ctx, k, ns.Name); err != nil {
		return remains{estimate: estimate}, err
	}
	if len(l.items) == 0 {
		return remains{estimate: estimate}.unless(l.known), nil
	}
	left := remains{count: len(l.items), finalizers: map[string]int{}, estimate: estimate}
	for _, o := range l.items {
		for _, f := range o.GetFinalizers() {
			left.finalizers[f]++
		}
	}
	switch {
	case estimate > 0:
	case len(left.finalizers) > 0:
		left.estimate = finalizerEstimate
	default:
		return left, fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", ns.Name, k.gvr)
	}
	return left, nil
}

// unless returns m, or the zero value if the kind is known to be empty.
func (m remains) unless(empty bool) remains {
	if empty {
		return remains{}
	}
	return m
}

// listing is the objects of a kind in a namespace. They are not known if the kind does not support lists, even if discovery
// says that it does.
type listing struct {
	items []*metav1.PartialObjectMetadata
	pages []page // of the items
	known bool
}

type page = client.Page[*metav1.PartialObjectMetadata]

func (r *reconciler) list(ctx context.Context, k kind, namespace string) (listing, error) {
	if !k.canList {
		return listing{}, nil
	}
	l := listing{known: true}
	for p, err := range client.Pages[metav1.PartialObjectMetadata](ctx, r.live, append(k.in(namespace), client.Limit(pageSize))...) {
		if err != nil {
			return listing{}, ignoreUnsupported(err)
		}
		l.pages, l.items = append(l.pages, p), append(l.items, p.Items...)
	}
	return l, nil
}

// deleteAll deletes all objects of a kind: page by page if the kind supports that, otherwise each with a request of its own,
// and so, too, those of a page that has one that the server refuses to delete. The policy is background, since the
// dependents are in the namespace and deleted, too.
func (r *reconciler) deleteAll(ctx context.Context, k kind, namespace string, l listing) error {
	each, failed := l.items, error(nil)
	if k.canDeleteMany {
		each, failed = r.deletePages(ctx, k, namespace, l.pages)
	}
	if err := ignoreUnsupported(deleteEach(ctx, r.live, each, k.in(namespace)...)); err != nil {
		return err
	}
	return failed
}

// deletePages deletes the objects of the pages, or whatever there is if it is given none. It returns the objects of the pages
// that were refused, and the first failure of another kind.
func (r *reconciler) deletePages(ctx context.Context, k kind, namespace string, pages []page) ([]*metav1.PartialObjectMetadata, error) {
	n := max(len(pages), 1)
	errs := make([]error, n)
	err := kit.Batch(ctx, n, atOnce, func(ctx context.Context, i int) error {
		how := append(k.in(namespace), client.Background)
		if i > 0 {
			how = append(how, client.From(pages[i].Token))
		}
		if i < n-1 {
			how = append(how, client.Limit(pageSize)) // the last page is without end
		}
		errs[i] = client.DeleteAll[metav1.PartialObjectMetadata](ctx, r.live, how...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var refused []*metav1.PartialObjectMetadata
	for i, e := range errs {
		switch {
		case e == nil:
		case i < len(pages) && isRefusal(e):
			refused = append(refused, pages[i].Items...)
		case err == nil:
			err = ignoreUnsupported(e)
		}
	}
	return refused, err
}

// isRefusal reports whether an error is the server's answer that it does not delete some object, or does not support deletes
// of collections, which some servers say with a 404, and not that it is too slow or has too much to do.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	busy := apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
	return errors.As(err, &status) && !busy
}

// deleteEach deletes objects, some at a time. Its error becomes part of a condition, so it is always that of the first
// object in order that could not be deleted.
func deleteEach[T client.Object](ctx context.Context, c *client.Client, objs []T, where ...client.Option) error {
	return kit.BatchFirst(ctx, len(objs), atOnce, func(ctx context.Context, i int) error {
		how := append(slices.Clone(where), client.Background, client.IfUID(objs[i].GetUID()))
		return client.IgnoreNotFound(client.Delete(ctx, c, objs[i], how...))
	})
}

// unsupported reports whether the server does not support the call for the kind, whatever discovery says.
func unsupported(err error) bool {
	return apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}

func ignoreUnsupported(err error) error {
	if unsupported(err) {
		return nil
	}
	return err
}

func (p *pass) add(k kind, left remains, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failures = append(p.failures, err)
	}
	if left.count > 0 {
		p.left[k.gvr] = left.count
	}
	for f, n := range left.finalizers {
		p.finalizers[f] += n
	}
	p.estimate = max(p.estimate, left.estimate)
}

// podsLeft reports whether the namespace has to wait for its pods.
func (p *pass) podsLeft() bool { return p.left[podResource] > 0 }

// err returns the failures, any of which keeps the namespace from being finalized.
func (p *pass) err() error {
	return errors.Join(append([]error{p.found.failed, p.found.unparsed}, p.failures...)...)
}
