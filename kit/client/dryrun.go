package client

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DryWrite is a write that the server was asked to validate and not to store.
type DryWrite struct {
	Verb     string // create, update, patch, delete or deletecollection
	Resource string // plural and group, with the subresource behind a slash
	Object   string // namespace/name, or the prefix of a name that is to be generated
	Detail   string // what it would have changed, abbreviated
}

// TakeDry returns the dry writes noted so far and forgets them.
func (l *WriteLog) TakeDry() []DryWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.dry
	l.dry = nil
	return w
}

// act is what a write does, as noted of a dry one.
type act struct {
	verb  string
	patch *Patch
}

// detailLimit is how many bytes of a detail are kept.
const detailLimit = 300

// noteDry notes a dry write under ctx.
func (c *Client) noteDry(ctx context.Context, r *resource, call call, a act, obj Object) {
	l, ok := ctx.Value(writeLogKey{}).(*WriteLog)
	if !ok {
		return
	}
	w := DryWrite{Verb: a.verb, Resource: r.gvr.GroupResource().String(), Object: objectText(obj)}
	if call.subresource != "" {
		w.Resource += "/" + call.subresource
	}
	switch {
	case a.patch != nil:
		w.Detail = string(a.patch.Data)
	case a.verb == "update":
		w.Detail = c.changes(r, obj)
	case a.verb == "create":
		if o := metav1.GetControllerOfNoCopy(obj); o != nil {
			w.Detail = fmt.Sprintf("for %s %s", o.Kind, o.Name)
		}
	case call.del.PropagationPolicy != nil:
		w.Detail = string(*call.del.PropagationPolicy)
	}
	if len(w.Detail) > detailLimit {
		w.Detail = strings.ToValidUTF8(w.Detail[:detailLimit], "") + "…"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dry = append(l.dry, w)
}

func objectText(obj Object) string {
	name := cmp.Or(obj.GetName(), obj.GetGenerateName())
	if ns := obj.GetNamespace(); ns != "" {
		return ns + "/" + name
	}
	return name
}

// changes says in which fields an object differs from the cached one; it is empty if that is not known.
func (c *Client) changes(r *resource, obj Object) string {
	if c.cache == nil || formOf(obj) != structured {
		return ""
	}
	cached, ok, err := c.cache.GetCached(r.gvk, obj, KeyOf(obj))
	if !ok || err != nil {
		return ""
	}
	was, err1 := runtime.DefaultUnstructuredConverter.ToUnstructured(cached)
	is, err2 := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err1 != nil || err2 != nil {
		return ""
	}
	var out []string
	differences("", was, is, &out)
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// differences collects the fields in which two objects differ, with both values where they are short.
func differences(path string, was, is any, out *[]string) {
	if reflect.DeepEqual(was, is) {
		return
	}
	a, aMap := was.(map[string]any)
	b, bMap := is.(map[string]any)
	if !aMap && !bMap {
		*out = append(*out, fmt.Sprintf("%s: %s → %s", path, short(was), short(is)))
		return
	}
	for k, v := range a {
		differences(strings.TrimPrefix(path+"."+k, "."), v, b[k], out)
	}
	for k, v := range b {
		if _, ok := a[k]; !ok {
			differences(strings.TrimPrefix(path+"."+k, "."), nil, v, out)
		}
	}
}

func short(v any) string {
	if v == nil {
		return "none"
	}
	if s := fmt.Sprint(v); len(s) <= 40 {
		return s
	}
	return "…"
}
