package kittest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// anyTime is a point in time as the API writes it.
var anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// state returns all objects, each as text, without what differs between two runs that do the same: versions, uids, times,
// generated names, the order of lists, and how often a spec was changed.
func (a *API) state(ignore []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*unstructured.Unstructured
	for _, t := range a.store.tables {
		for _, o := range t.objects {
			all = append(all, o.DeepCopy())
		}
	}
	var names []string
	for _, o := range all {
		name := o.GetName()
		if prefix := o.GetGenerateName(); prefix != "" {
			name = prefix + "*"
			names = append(names, o.GetName(), name)
		}
		names = append(names, string(o.GetUID()), o.GetKind()+" "+name)
	}
	known := strings.NewReplacer(names...)
	var out []string
	for _, o := range all {
		out = append(out, o.GetKind()+" "+textIn(bare(o, ignore), known))
	}
	slices.Sort(out)
	return out
}

// bare strips an object, which it takes over.
func bare(o *unstructured.Unstructured, ignore []string) map[string]any {
	if seen, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); ok {
		_ = unstructured.SetNestedField(o.Object, fmt.Sprintf("%d behind", o.GetGeneration()-seen), "status", "observedGeneration")
	}
	for _, path := range []string{"metadata.resourceVersion", "metadata.generation", "metadata.managedFields"} {
		unstructured.RemoveNestedField(o.Object, splitPath(path)...)
	}
	for _, i := range ignore {
		if kind, path, _ := strings.Cut(i, " "); kind == o.GetKind() {
			unstructured.RemoveNestedField(o.Object, splitPath(path)...)
		}
	}
	return o.Object
}

// textIn returns an object as JSON with the names that are known, and lists in the order of their text.
func textIn(o map[string]any, known *strings.Replacer) string {
	data, _ := json.Marshal(o)
	var plain any
	_ = json.Unmarshal([]byte(anyTime.ReplaceAllString(known.Replace(string(data)), "(time)")), &plain)
	data, _ = json.Marshal(sorted(plain))
	return string(data)
}

// sorted puts the lists in a value in the order of their text.
func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "resourceVersion")
		for k := range v {
			v[k] = sorted(v[k])
		}
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
		slices.SortFunc(v, func(a, b any) int {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return bytes.Compare(x, y)
		})
	}
	return v
}
