package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// owned are the kinds of which graphs of owners and dependents are made.
var owned = map[string]metav1.TypeMeta{
	"configmaps":      {APIVersion: "v1", Kind: "ConfigMap"},
	"secrets":         {APIVersion: "v1", Kind: "Secret"},
	"serviceaccounts": {APIVersion: "v1", Kind: "ServiceAccount"},
	"pods":            {APIVersion: "v1", Kind: "Pod"},
	"replicasets":     {APIVersion: "apps/v1", Kind: "ReplicaSet"},
	"things":          {APIVersion: customGroup + "/v1", Kind: "Thing"},
	"realms":          {APIVersion: customGroup + "/v1", Kind: "Realm"},
}

// A member is an object of such a graph.
type member struct {
	resource, namespace, name string
	// many is true if it may have several owners. Then it has no finalizers that hold it up: which of its owners goes first is
	// a matter of luck, and so would be what is left of its references.
	many bool
	// doubtful is true if it may be collected soon, as it or one of its owners has had a wrong reference from the start.
	doubtful bool
}

// path is the name by which steps know the object.
func (m member) path() string {
	if m.namespace != "" {
		return m.namespace + "/" + m.name
	}
	return m.name
}

// ownerProgram builds a graph of owners and dependents, deletes some, and changes it on the way.
func ownerProgram(r *rand.Rand) program {
	var all []member
	p := program{steps: []step{collected(), hurried(created("namespaces", named("v1", "Namespace", self+"-x")))}}
	for i := range 6 + r.IntN(10) {
		m := newMember(r, i)
		u := m.object(r, all)
		m.doubtful = doubtful(m, u, all)
		s := created(m.resource, u)
		s.now = !m.doubtful // what refers to it later must find it gone in both, or in neither
		p.steps = append(p.steps, s)
		all = append(all, m)
	}
	p.steps[len(p.steps)-1].now = false
	for range r.IntN(3) { // cycles
		p.steps = append(p.steps, reowned(r, pick(r, all...), all))
	}
	for range 6 + r.IntN(6) {
		p.steps = append(p.steps, ownerStep(r, all))
	}
	return p
}

func named(apiVersion, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
}

func newMember(r *rand.Rand, i int) member {
	m := member{resource: pick(r, slices.Sorted(maps.Keys(owned))...), name: fmt.Sprintf("o%d", i), many: chance(r, 2)}
	switch {
	case clusterScoped[m.resource]:
		m.name = self + "-" + m.name
	case chance(r, 8):
		m.namespace = self + "-x"
	}
	return m
}

// object is the member with owners among the others.
func (m member) object(r *rand.Rand, others []member) *unstructured.Unstructured {
	u := named(owned[m.resource].APIVersion, owned[m.resource].Kind, m.name)
	meta := u.Object["metadata"].(map[string]any)
	if m.namespace != "" {
		meta["namespace"] = m.namespace
	}
	if refs := ownersOf(r, m, others); len(refs) > 0 {
		meta["ownerReferences"] = refs
	}
	// A graph is built object by object, and some of it is collected meanwhile: whether a dependent comes before its owner is
	// deleted must not matter, as it would with orphans.
	if !m.many && chance(r, 3) {
		meta["finalizers"] = pick(r, []any{"parity/keep"}, []any{metav1.FinalizerDeleteDependents})
	}
	pod := map[string]any{"terminationGracePeriodSeconds": int64(1), "containers": []any{map[string]any{"name": "main", "image": "fake:1"}}}
	switch m.resource {
	case "pods":
		u.Object["spec"] = pod
	case "replicasets":
		labels := map[string]any{"app": "none"}
		u.Object["spec"] = map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": pod["containers"]}},
		}
	}
	return u
}

// doubtful reports whether an object has a reference that is wrong, or to an owner that is doubtful itself.
func doubtful(m member, u *unstructured.Unstructured, others []member) bool {
	for _, ref := range u.GetOwnerReferences() {
		i := slices.IndexFunc(others, func(o member) bool {
			return string(ref.UID) == o.uid() && ref.Name == o.name && ref.APIVersion == owned[o.resource].APIVersion && ref.Kind == owned[o.resource].Kind
		})
		if i < 0 || others[i].doubtful || !clusterScoped[others[i].resource] && (others[i].namespace != m.namespace || clusterScoped[m.resource]) {
			return true
		}
	}
	return false
}

// uid stands for the object's UID in the text of a step.
func (m member) uid() string { return fmt.Sprintf("$uid(%s/%s)", m.resource, m.path()) }

func finalizersOf(r *rand.Rand) []any {
	return pick(r, []any{"parity/keep"}, []any{"parity/keep"}, []any{metav1.FinalizerDeleteDependents}, []any{metav1.FinalizerOrphanDependents},
		[]any{"parity/keep", metav1.FinalizerOrphanDependents}, []any{"parity/keep", metav1.FinalizerDeleteDependents})
}

// ownersOf draws references to others, most of them right.
func ownersOf(r *rand.Rand, m member, others []member) []any {
	var refs []any
	seen := map[member]bool{}
	for n := range pick(r, 0, 1, 1, 1, 2, 2, 3) {
		if len(others) == 0 || n > 0 && !m.many {
			break
		}
		owner := pick(r, others...)
		if seen[owner] {
			continue
		}
		seen[owner] = true
		ref := map[string]any{
			"apiVersion": owned[owner.resource].APIVersion, "kind": owned[owner.resource].Kind, "name": owner.name,
			"uid": owner.uid(),
		}
		wrong := r.IntN(16)
		if m.many {
			wrong *= 4 // README, "Garbage collection": what follows a doubtful reference is not reported by upstream
		}
		switch wrong {
		case 0:
			ref["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", r.IntN(1000))
		case 1:
			ref["name"] = "nobody"
		case 2:
			other := owned[pick(r, slices.Sorted(maps.Keys(owned))...)]
			ref["apiVersion"], ref["kind"] = other.APIVersion, other.Kind
		case 3:
			ref["apiVersion"] = "none.example.com/v1"
		}
		if block := r.IntN(3); block > 0 {
			ref["blockOwnerDeletion"] = block == 1
		}
		if len(refs) == 0 && chance(r, 3) {
			ref["controller"] = true
		}
		refs = append(refs, ref)
	}
	return refs
}

// reowned is the step that replaces an object's owners.
func reowned(r *rand.Rand, m member, all []member) step {
	refs := ownersOf(r, m, all)
	for _, ref := range refs {
		// README, "Garbage collection": a reference that changes and keeps its UID.
		ref := ref.(map[string]any)
		for _, o := range all {
			if ref["uid"] == o.uid() {
				ref["apiVersion"], ref["kind"], ref["name"] = owned[o.resource].APIVersion, owned[o.resource].Kind, o.name
			}
		}
	}
	text, err := json.Marshal(refs)
	if err != nil {
		panic(err) // made of text
	}
	s := patched(m.resource, m.path(), `{"metadata":{"ownerReferences":%s}}`, text)
	patch := s.do
	s.do = func(ctx context.Context, s *subject) error {
		for _, o := range all {
			// README, "Garbage collection": a dependent that an owner gets while it waits for others.
			if where, name := s.named(o.resource, o.path()); strings.Contains(string(text), o.uid()) {
				if u, err := where.Get(ctx, name, metav1.GetOptions{}); err == nil && u.GetDeletionTimestamp() != nil {
					return fmt.Errorf("%s %s is being deleted", o.resource, name)
				}
			}
		}
		return patch(ctx, s)
	}
	return s
}

func ownerStep(r *rand.Rand, all []member) step {
	m := pick(r, all...)
	switch r.IntN(10) {
	case 0:
		return reowned(r, m, all)
	case 1:
		if m.many {
			return reowned(r, m, all)
		}
		f, err := json.Marshal(finalizersOf(r))
		if err != nil {
			panic(err) // made of text
		}
		return patched(m.resource, m.path(), `{"metadata":{"finalizers":%s}}`, f)
	case 2:
		return patched(m.resource, m.path(), `{"metadata":{"finalizers":null}}`)
	case 3:
		return created(m.resource, m.object(r, all))
	default:
		return deleted(m.resource, m.path(), pick(r, "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan))
	}
}

// lowerPlural is the resource of a custom kind.
func lowerPlural(kind string) string { return strings.ToLower(kind) + "s" }
