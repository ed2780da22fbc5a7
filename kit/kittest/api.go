package kittest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// API is a Kubernetes API in memory. It belongs to one test and one synctest bubble, and is safe for concurrent use.
type API struct {
	t      testing.TB
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	cache  *cache.Cache
	slim   map[schema.GroupVersionKind]cache.Slimming
	gates  map[featuregate.Feature]bool
	ctx    context.Context // ends with the test
	filled context.Context // of the cache
	forget func()          // stops the cache and waits for it

	mu       sync.Mutex // guards the fields below
	registry *registry
	store    *store
	reactors []func(*Request) *Reaction
	calls    uint64
	writes   []string
	events   []Event
	panics   bool // panics are expected
}

// withoutPauses removes client-go's pause after each error: it uses a timestamp from outside the bubble, where the clock is
// decades ahead, and would sleep for as long.
var withoutPauses = sync.OnceFunc(func() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] })

// New returns an API that holds the objects. Call it inside the bubble.
func New(t testing.TB, objs ...client.Object) *API {
	withoutPauses()
	a := &API{
		t: t, scheme: clientscheme.Scheme, codecs: clientscheme.Codecs, registry: newRegistry(), store: newStore(),
		gates: map[featuregate.Feature]bool{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.ctx = ctx
	t.Cleanup(func() {
		cancel()
		a.ForgetCache()
		a.Pass(time.Second) // the queues' metric loops look for the end twice a second
	})
	for _, o := range objs {
		a.Create(t, o)
	}
	return a
}

// AddTypes adds Go types to the scheme and serves those that are kinds. Call it before Context and Run.
func (a *API) AddTypes(add func(*runtime.Scheme) error, clusterScope ...string) {
	a.t.Helper()
	own, all := runtime.NewScheme(), runtime.NewScheme()
	for _, s := range []*runtime.Scheme{own, all} {
		if err := add(s); err != nil {
			a.t.Fatalf("kittest: add types: %v", err)
		}
	}
	if err := clientscheme.AddToScheme(all); err != nil {
		a.t.Fatalf("kittest: add built-in types: %v", err)
	}
	a.scheme, a.codecs = all, serializer.NewCodecFactory(all)
	for _, r := range kindsOf(own) {
		r.namespaced = !slices.Contains(clusterScope, r.gvk.Kind)
		a.registry.add(r)
		a.registry.extra[r.gvr()] = true
	}
}

// AddKind serves a kind without a Go type, like a custom resource. For a kind that is served already it adds a second
// resource, as an aggregated API may; only a client that names the resource finds it. A kind that is no longer served is
// replaced, as when its CustomResourceDefinition was recreated.
func (a *API) AddKind(gvk schema.GroupVersionKind, plural string, namespaced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registry.add(&resource{gvk: gvk, plural: plural, namespaced: namespaced, status: true, generation: true, scale: true})
}

// WithoutScale removes the scale subresource from a kind added by AddKind. They all have it at first.
func (a *API) WithoutScale(gvk schema.GroupVersionKind) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.registry.byKind[gvk]
	if r == nil || r.typed {
		a.t.Fatalf("kittest: %s is not a kind of AddKind", gvk)
	}
	r.scale = false
}

// Serve changes whether discovery and Available report a resource. Stable versions are on by default, others off.
func (a *API) Serve(gvr schema.GroupVersionResource, on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registry.extra[gvr] = on
}

// Slim makes the cache drop fields of a kind as the daemon does. Call it before Context and Run.
func (a *API) Slim(slim map[schema.GroupVersionKind]cache.Slimming) { a.slim = slim }

// SetGate overrides a feature gate. Call it before Run.
func (a *API) SetGate(name string, on bool) { a.gates[featuregate.Feature(name)] = on }

// Config returns the configuration of a client that calls the API under a name, without limits.
func (a *API) Config(user string, rules ...rbacv1.PolicyRule) *rest.Config {
	return &rest.Config{
		Host: "http://kittest", UserAgent: user, QPS: -1,
		Transport: &transport{api: a, user: user, rules: rules},
		ContentConfig: rest.ContentConfig{
			ContentType: protobuf, AcceptContentTypes: protobuf + ",application/json",
		},
	}
}

// Client returns a client that calls the API under a name. Without rules it may do anything. Its reads go to the API.
func (a *API) Client(user string, rules ...rbacv1.PolicyRule) *client.Client {
	a.t.Helper()
	config := a.Config(user, rules...)
	c, err := client.New(config, client.Options{
		Scheme: a.scheme, Mapper: safeMapper{a.registry.mapper, &a.mu}, HTTPClient: &http.Client{Transport: config.Transport},
	})
	if err != nil {
		a.t.Fatalf("kittest: make client: %v", err)
	}
	return c
}

// ForgetCache stops the cache. The next Run gets a new one, filled from the API, like a new process. Controllers on the old
// one must be stopped first.
func (a *API) ForgetCache() {
	if a.cache == nil {
		return
	}
	a.forget()
	a.checkCache()
	a.cache = nil
}

// Pass lets time pass and then waits until all goroutines are blocked again. After that, shared variables that controllers
// write can be read.
func (a *API) Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Settle returns once the API has not been called for a tenth of a second of the bubble's time.
func (a *API) Settle() {
	a.t.Helper()
	const step, quiet, limit = 10 * time.Millisecond, 10, 3000
	still := 0
	for range limit {
		before := a.callCount()
		a.Pass(step)
		if still++; a.callCount() != before {
			still = 0
		}
		if still == quiet {
			return
		}
	}
	a.t.Fatalf("kittest: the API is still being called after %v; the last writes: %q", step*limit, lastOf(a.Writes(), 10))
}

func (a *API) callCount() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

func lastOf[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// Writes returns the successful writes of controllers in order: "create v1/pods default/web-bbbbc". It does not include
// those of the test itself.
func (a *API) Writes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

// TakeWrites returns the same as Writes, and clears the list.
func (a *API) TakeWrites() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.writes
	a.writes = nil
	return out
}

// Expect fails the test unless the writes since the last Expect or TakeWrites are these, in any order.
func (a *API) Expect(t testing.TB, want ...string) {
	t.Helper()
	got := a.TakeWrites()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("writes:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func (a *API) record(r *Request, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls++; err == nil && !r.reads() {
		a.writes = append(a.writes, r.String())
	}
}

func (a *API) lookup(gvr schema.GroupVersionResource) *resource {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.registry.byName[gvr]
}

// begin prepares a write by the test itself. a.mu is held by the caller from then on.
func (a *API) begin(t testing.TB, obj client.Object) (*write, *unstructured.Unstructured) {
	t.Helper()
	o, err := a.generic(obj)
	if err != nil {
		t.Fatalf("kittest: %v", err)
	}
	r := a.registry.byKind[o.GroupVersionKind()]
	if r == nil {
		t.Fatalf("kittest: unknown kind %s; see AddKind and AddTypes", o.GroupVersionKind())
	}
	if r.namespaced && o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	return &write{api: a, r: r, trusted: true}, o
}

// finish copies what was stored into the caller's object and fails the test on an error.
func (a *API) finish(t testing.TB, what string, obj client.Object, o *unstructured.Unstructured, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("kittest: %s %T %s: %v", what, obj, client.KeyOf(obj), err)
	}
	if err := copyInto(o, obj); err != nil {
		t.Fatalf("kittest: %s %T: %v", what, obj, err)
	}
}

func copyInto(o *unstructured.Unstructured, obj client.Object) error {
	switch into := obj.(type) {
	case *unstructured.Unstructured:
		into.Object = o.DeepCopy().Object
		return nil
	case *metav1.PartialObjectMetadata:
		gvk := into.GroupVersionKind()
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": o.Object["metadata"]}, into)
		into.SetGroupVersionKind(gvk)
		return err
	}
	zero(obj)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.DeepCopy().Object, obj)
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return err
}

// Create stores an object, status included, and fills in what the server adds. The default namespace is "default".
func (a *API) Create(t testing.TB, obj client.Object) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	w, o := a.begin(t, obj)
	stored, err := w.create(o)
	a.finish(t, "create", obj, stored, err)
}

// Update replaces an object, status included, whatever its resourceVersion.
func (a *API) Update(t testing.TB, obj client.Object) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	w, o := a.begin(t, obj)
	o.SetUID("")
	stored, err := w.update(o, "")
	a.finish(t, "update", obj, stored, err)
}

// Put is Update, or Create if the object does not exist.
func (a *API) Put(t testing.TB, obj client.Object) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	w, o := a.begin(t, obj)
	var stored *unstructured.Unstructured
	_, err := w.current(client.KeyOf(o))
	if err == nil {
		o.SetUID("")
		stored, err = w.update(o, "")
	} else {
		stored, err = w.create(o)
	}
	a.finish(t, "put", obj, stored, err)
}

// Delete deletes an object as a user would: finalizers, or the grace period of a running pod, delay the removal.
func (a *API) Delete(t testing.TB, obj client.Object) { a.DeleteWith(t, obj, metav1.DeleteOptions{}) }

// DeleteIfExists is Delete for an object that a controller may delete at the same time.
func (a *API) DeleteIfExists(t testing.TB, obj client.Object) {
	t.Helper()
	if err := a.deleteWith(t, obj, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// DeleteWith is Delete with options.
func (a *API) DeleteWith(t testing.TB, obj client.Object, opts metav1.DeleteOptions) {
	t.Helper()
	if err := a.deleteWith(t, obj, opts); err != nil {
		t.Fatal(err)
	}
}

func (a *API) deleteWith(t testing.TB, obj client.Object, opts metav1.DeleteOptions) error {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	w, o := a.begin(t, obj)
	if _, _, err := w.delete(client.KeyOf(o), opts); err != nil {
		return fmt.Errorf("kittest: delete %T %s: %w", obj, client.KeyOf(o), err)
	}
	return nil
}

// Remove removes an object at once, regardless of finalizers and grace period, as a kubelet does with a stopped pod.
func (a *API) Remove(t testing.TB, obj client.Object) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	w, o := a.begin(t, obj)
	if _, err := w.current(client.KeyOf(o)); err != nil {
		t.Fatalf("kittest: remove %T: %v", obj, err)
	}
	w.remove(client.KeyOf(o))
}

// Get reads the current state of the object with obj's namespace and name into obj. It reports whether the object exists.
func (a *API) Get(t testing.TB, obj client.Object) bool {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	w, o := a.begin(t, obj)
	found, err := w.current(client.KeyOf(o))
	if err != nil {
		return false
	}
	a.finish(t, "get", obj, found, nil)
	return true
}

// List returns the objects of a type in a namespace, or in all if it is empty, sorted by name.
func List[T any, P client.Ptr[T]](t testing.TB, a *API, namespace string) []P {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	gvks, _, err := a.scheme.ObjectKinds(P(new(T)))
	if err != nil {
		t.Fatalf("kittest: %v", err)
	}
	r := a.registry.byKind[gvks[0]]
	var out []P
	for _, o := range a.store.table(r.groupResource()).list(selection{namespace: namespace}) {
		p := P(new(T))
		a.finish(t, "list", p, o, nil)
		out = append(out, p)
	}
	return out
}
