package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// Explanation is what the loops have done for an object, as far back as they remember.
type Explanation struct {
	Kind   string `json:"kind,omitempty"` // empty if the request names none
	Object string `json:"object"`         // namespace/name
	// Cached is the object itself; nil if the request names no kind, or if the object does not exist.
	Cached *Cached `json:"cached,omitempty"`
	// Owners are its controlling owner, that one's owner and so on.
	Owners []Cached      `json:"owners,omitempty"`
	Loops  []LoopHistory `json:"loops"`
}

// Cached is an object as the cache holds it.
type Cached struct {
	Kind            string    `json:"kind"`
	Name            string    `json:"name"` // namespace/name
	UID             string    `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	Generation      int64     `json:"generation,omitempty"`
	Created         time.Time `json:"created"`
	Deleting        time.Time `json:"deleting,omitzero"` // when its deletion was requested
}

// LoopHistory is what one loop has done for the object or one of its owners.
type LoopHistory struct {
	Loop    string      `json:"loop"`
	Of      string      `json:"of"`                // the object that the keys name, as "Deployment default/web"
	Running string      `json:"running,omitempty"` // for how long it has been reconciled now; empty: it is not
	Next    time.Time   `json:"next,omitzero"`     // when it is reconciled again without a change
	Entries []kit.Entry `json:"entries"`           // newest first
}

// explainLimit is the maximum number of entries of one loop in an explanation.
const explainLimit = 100

// Explain returns what the loops have done for an object. The kind may be given as for kubectl, or be empty: then all keys
// of that name count. An error means that the kind is unknown.
func (p *Page) Explain(kind, object string, now time.Time) (*Explanation, error) {
	e := &Explanation{Object: object, Loops: []LoopHistory{}}
	subjects := []Cached{{Name: object}}
	if kind != "" {
		i := p.informerOf(kind)
		if i == nil {
			return nil, fmt.Errorf("no controller here watches the kind %q; those that are watched: %s", kind, p.kinds())
		}
		e.Kind = i.GVK.Kind
		e.Cached, e.Owners = p.find(i, keyFrom(object))
		subjects = append([]Cached{{Kind: e.Kind, Name: object}}, e.Owners...)
	}
	for _, c := range p.loops() {
		state := c.State(now)
		for _, s := range subjects {
			if l, ok := historyOf(c, state, s); ok {
				e.Loops = append(e.Loops, l)
			}
		}
	}
	// The most recently reconciled comes first.
	slices.SortStableFunc(e.Loops, func(a, b LoopHistory) int { return b.latest().Compare(a.latest()) })
	return e, nil
}

func (l LoopHistory) latest() time.Time {
	if len(l.Entries) == 0 {
		return time.Time{}
	}
	return l.Entries[0].At
}

// historyOf returns what a loop has done for a subject; ok is false if its keys are of another kind or it remembers nothing.
func historyOf(c kit.Controller, state kit.State, s Cached) (l LoopHistory, ok bool) {
	if s.Kind != "" && state.Kind != "" && s.Kind != state.Kind {
		return l, false
	}
	picks := func(key string) bool { return names(key, s.Name, state.Kind != "") }
	l = LoopHistory{Loop: c.Name(), Of: strings.TrimSpace(cmp.Or(s.Kind, state.Kind) + " " + s.Name), Entries: c.History(picks)}
	l.Entries = l.Entries[:min(len(l.Entries), explainLimit)]
	if len(l.Entries) > 0 {
		l.Next = l.Entries[0].Next
	}
	for _, r := range state.Running {
		if picks(r.Key) {
			l.Running = r.Age.Round(time.Millisecond).String()
		}
	}
	return l, len(l.Entries) > 0 || l.Running != ""
}

// names reports whether a key names an object. Keys that are more than namespace and name, such as those of the garbage
// collector, must contain it as a word.
func names(key, object string, plain bool) bool {
	if plain || key == object {
		return key == object
	}
	for rest := key; ; {
		at := strings.Index(rest, object)
		if at < 0 {
			return false
		}
		end := at + len(object)
		if (at == 0 || !partOfName(rest[at-1])) && (end == len(rest) || !partOfName(rest[end])) {
			return strings.Contains(object, "/")
		}
		rest = rest[end:]
	}
}

func partOfName(c byte) bool {
	return c == '-' || c == '.' || c == '/' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// find returns an object and its owners from the cache, the nearest owner first.
func (p *Page) find(i *cache.Informer, key client.Key) (*Cached, []Cached) {
	obj, ok := i.Get(key)
	if !ok {
		return nil, nil
	}
	self := cachedOf(i, obj)
	var owners []Cached
	for range 8 { // bounded, as objects may own each other
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil {
			break
		}
		i = p.informerOf(ref.Kind)
		if i == nil {
			break
		}
		if obj, ok = i.Get(client.Key{Namespace: obj.GetNamespace(), Name: ref.Name}); !ok {
			break
		}
		owners = append(owners, cachedOf(i, obj))
	}
	return &self, owners
}

func cachedOf(i *cache.Informer, obj client.Object) Cached {
	c := Cached{
		Kind: i.GVK.Kind, Name: keyText(client.KeyOf(obj)), UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion(),
		Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time,
	}
	if d := obj.GetDeletionTimestamp(); d != nil {
		c.Deleting = d.Time
	}
	return c
}

// shortNames maps the short names that users know from kubectl to resources.
func shortNames() map[string]string {
	return map[string]string{
		"po": "pods", "rs": "replicasets", "rc": "replicationcontrollers", "deploy": "deployments", "sts": "statefulsets",
		"ds": "daemonsets", "cj": "cronjobs", "svc": "services", "ep": "endpoints", "no": "nodes", "ns": "namespaces",
		"pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "sa": "serviceaccounts", "cm": "configmaps",
		"quota": "resourcequotas", "hpa": "horizontalpodautoscalers", "pdb": "poddisruptionbudgets", "csr": "certificatesigningrequests",
		"npool": "nodepools",
	}
}

// informerOf returns the informer of a kind, which may be given as its name or resource, each with or without group, or its
// short name. A structured one is preferred.
func (p *Page) informerOf(kind string) *cache.Informer {
	if p.c.Caches == nil {
		return nil
	}
	want := strings.ToLower(kind)
	if long, ok := shortNames()[want]; ok {
		want = long
	}
	var found *cache.Informer
	for _, i := range p.c.Caches() {
		plural, _ := meta.UnsafeGuessKindToResource(i.GVK)
		name, group := strings.ToLower(i.GVK.Kind), i.GVK.Group
		is := slices.Contains([]string{name, plural.Resource, i.Resource().Resource, name + "." + group, i.Resource().Resource + "." + group}, want)
		if is && (found == nil || i.Form == cache.Structured && found.Form != cache.Structured) {
			found = i
		}
	}
	return found
}

// kinds lists the resources that can be asked for.
func (p *Page) kinds() string {
	if p.c.Caches == nil {
		return "none"
	}
	var names []string
	for _, i := range p.c.Caches() {
		names = append(names, i.Resource().Resource)
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(slices.Compact(names), ", "), "none yet")
}

func keyFrom(object string) client.Key {
	if namespace, name, ok := strings.Cut(object, "/"); ok {
		return client.Key{Namespace: namespace, Name: name}
	}
	return client.Key{Name: object}
}

func keyText(k client.Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}
