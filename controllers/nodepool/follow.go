package nodepool

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"orrery/api/nodes/v1alpha1"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// theKind is the only key of the loop that follows the NodePool kind.
type theKind struct{}

// String names the key on the debug page.
func (theKind) String() string { return "NodePool" }

// listPoll is how often the informer is asked whether it has synced.
const listPoll = 50 * time.Millisecond

// follower opens the catalog when the server has the kind, and closes it when the kind has been removed. It is used by one
// worker only.
type follower struct {
	cc       kit.ControllerContext
	r        *reconciler
	informer *cache.Informer // nil while the server does not have the kind
	handler  *cache.Registration
	open     bool
	said     bool // it has been logged that the kind is missing
}

func (f *follower) reconcile(ctx context.Context, _ theKind) (kit.Result, error) {
	log := klog.FromContext(ctx)
	switch {
	case f.informer == nil:
		return f.begin(log)
	case !f.open && f.informer.HasSynced() && f.handler.HasSynced():
		f.open, f.said = true, false
		f.r.catalog.setOpen(true)
		f.r.wakeAll()
		log.Info("Following NodePools", "count", f.informer.Len())
	case f.informer.LastError() != "":
		if served, err := f.served(); err != nil || served {
			return kit.Done, err
		}
		f.end()
		log.Info("The kind NodePool has gone from the server; nothing is done until it is back")
	case !f.open:
		return kit.After(listPoll), nil
	}
	return kit.Done, nil
}

// begin starts an informer if the server has the kind.
func (f *follower) begin(log klog.Logger) (kit.Result, error) {
	switch served, err := f.served(); {
	case err != nil:
		return kit.Done, err
	case !served:
		if !f.said {
			log.Info("Waiting for the kind NodePool; install manifests/crds to use it", "group", v1alpha1.SchemeGroupVersion)
			f.said = true
		}
		return kit.Done, nil
	}
	meta.MaybeResetRESTMapper(f.cc.Client.Mapper())
	f.r.catalog.setOpen(false) // drops what an earlier informer has left
	informer, err := f.cc.Cache.Informer(v1alpha1.NodePoolKind, cache.Unstructured)
	if err != nil {
		return kit.Done, err
	}
	handler, err := kit.Observe(f.cc, informer, f.r.observe)
	if err != nil {
		f.cc.Cache.Remove(v1alpha1.NodePoolKind, cache.Unstructured)
		return kit.Done, fmt.Errorf("watch NodePools: %w", err)
	}
	f.informer, f.handler = informer, handler
	return kit.After(listPoll), nil
}

// end stops following the kind.
func (f *follower) end() {
	f.handler.Remove()
	f.cc.Cache.Remove(v1alpha1.NodePoolKind, cache.Unstructured)
	f.cc.Live.Forget(v1alpha1.NodePoolKind)
	meta.MaybeResetRESTMapper(f.cc.Client.Mapper())
	f.r.catalog.setOpen(false)
	f.informer, f.handler, f.open, f.said = nil, nil, false, true
}

// served reports whether the server has the kind.
func (f *follower) served() (bool, error) {
	list, err := f.cc.Discovery.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for the kind NodePool: %w", err)
	}
	return slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == v1alpha1.NodePoolResource.Resource }), nil
}

// observe updates the catalog with the changes of pools and queues them: at once if the spec has changed, with a delay if
// only what is reported has.
func (r *reconciler) observe(old, new client.Object, _ bool) {
	if new == nil {
		r.catalog.drop(old.GetName(), old.GetUID())
		r.wakePool.Add(kit.Key{Name: old.GetName()})
		return
	}
	raw, ok := new.(*unstructured.Unstructured)
	if !ok {
		return
	}
	k := newKnown(raw)
	if r.rehearses && k.problem == nil {
		k.pool.Paused = k.api.Spec.Paused
	}
	before, _ := r.catalog.get(k.api.Name)
	r.catalog.put(k)
	if before == nil || versionOf(before) != versionOf(k) {
		r.wakePool.Add(kit.Key{Name: k.api.Name})
		return
	}
	r.wakePool.AddAfter(kit.Key{Name: k.api.Name}, statusDelay)
}

// wakeAll queues every node and every pool.
func (r *reconciler) wakeAll() {
	for _, name := range r.catalog.names() {
		r.wakePool.Add(kit.Key{Name: name})
	}
	for _, node := range r.nodes.List("") {
		r.wakeNode.Add(kit.KeyOf(node))
	}
}
