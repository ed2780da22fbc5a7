package nodepool

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool/merge"
)

// known is a NodePool as it was last seen. It is immutable.
type known struct {
	raw  *unstructured.Unstructured
	api  *v1alpha1.NodePool
	pool *merge.Pool
	// problem is why the pool is invalid; nil if it is valid.
	problem error
}

// newKnown decodes a NodePool. An invalid pool leaves its nodes and status as they are; its deletionPolicy still counts.
func newKnown(raw *unstructured.Unstructured) *known {
	k := &known{raw: raw, api: &v1alpha1.NodePool{}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, k.api); err != nil {
		k.api = &v1alpha1.NodePool{}
		k.api.Name, k.api.UID, k.api.Finalizers = raw.GetName(), raw.GetUID(), raw.GetFinalizers()
		k.api.DeletionTimestamp, k.api.Generation = raw.GetDeletionTimestamp(), raw.GetGeneration()
		k.api.CreationTimestamp = raw.GetCreationTimestamp()
		policy, _, _ := unstructured.NestedString(raw.Object, "spec", "deletionPolicy")
		k.api.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(policy)
		if status, ok := raw.Object["status"].(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(status, &k.api.Status) != nil {
			k.api.Status = v1alpha1.NodePoolStatus{}
		}
		k.problem = fmt.Errorf("it cannot be read: %w", err)
	}
	var err error
	if k.pool, err = merge.NewPool(k.api); err != nil && k.problem == nil {
		k.problem = err
	}
	if k.problem != nil {
		k.pool.Paused = true
	}
	return k
}

// catalog holds the NodePools. It is closed while the server does not have the kind, or while the pools have not been
// listed yet: then nothing is known about any pool.
type catalog struct {
	mu     sync.RWMutex // guards the fields below
	open   bool
	byName map[string]*known
	sorted []*merge.Pool // by precedence; replaced and never modified
}

func newCatalog() *catalog { return &catalog{byName: map[string]*known{}} }

// put adds or replaces a pool.
func (c *catalog) put(k *known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName[k.api.Name] = k
	c.sort()
}

// drop removes a pool that is gone, unless a new one has taken its name.
func (c *catalog) drop(name string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.byName[name]; k != nil && k.api.UID == uid {
		delete(c.byName, name)
		c.sort()
	}
}

func (c *catalog) sort() {
	c.sorted = make([]*merge.Pool, 0, len(c.byName))
	for _, k := range c.byName {
		c.sorted = append(c.sorted, k.pool)
	}
	slices.SortFunc(c.sorted, merge.ByPrecedence)
}

// setOpen opens the catalog, or closes and empties it.
func (c *catalog) setOpen(open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
	if !open {
		c.byName, c.sorted = map[string]*known{}, nil
	}
}

// get returns a pool by its name, or nil. ok is false while the catalog is closed.
func (c *catalog) get(name string) (k *known, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byName[name], c.open
}

// pools returns all pools by precedence. ok is false while the catalog is closed.
func (c *catalog) pools() (all []*merge.Pool, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.sorted, c.open
}

// names returns the names of all pools.
func (c *catalog) names() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []string
	for name := range c.byName {
		out = append(out, name)
	}
	return out
}

// withRuntimeClass returns the names of the pools whose RuntimeClass has the given name.
func (c *catalog) withRuntimeClass(name string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []string
	for _, k := range c.byName {
		if k.api.RuntimeClassName() == name || k.api.Status.RuntimeClassName == name {
			out = append(out, k.api.Name)
		}
	}
	return out
}
