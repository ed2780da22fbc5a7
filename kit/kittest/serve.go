package kittest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/client"
)

// answer is the result of a call: a document or a watch.
type answer struct {
	code   int
	doc    any
	stream *stream
}

func (w answer) response(h *http.Request) *http.Response {
	if w.stream == nil {
		return respond(h, w.code, w.doc)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: w.stream, ContentLength: -1, Request: h,
	}
}

// discover answers the discovery paths.
func (a *API) discover(path string) (any, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/version":
		return map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.2"}, true
	case path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, true
	case path == "/apis":
		return a.registry.groupList(), true
	case len(parts) == 2 && parts[0] == "api":
		return a.registry.resourceList(schema.GroupVersion{Version: parts[1]}), true
	case len(parts) == 3 && parts[0] == "apis":
		return a.registry.resourceList(schema.GroupVersion{Group: parts[1], Version: parts[2]}), true
	}
	return nil, false
}

// serve carries out a call.
func (a *API) serve(r *Request) (answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &write{api: a, r: r.kind, dryRun: r.query.Get("dryRun") == metav1.DryRunAll}
	if r.Subresource != "" && r.Subresource != "status" && r.Subresource != "finalize" && r.Subresource != "approval" {
		return a.serveSubresource(w, r)
	}
	switch r.Verb {
	case "get":
		o, err := w.current(r.Key())
		return a.one(r, http.StatusOK, o, err)
	case "list":
		return a.list(r)
	case "watch":
		return a.watch(r)
	case "create":
		o, err := w.create(r.Object)
		if err == nil {
			r.Name = o.GetName()
		}
		return a.one(r, http.StatusCreated, o, err)
	case "update":
		o, err := w.update(r.Object, r.Subresource)
		return a.one(r, http.StatusOK, o, err)
	case "patch":
		kind, _, _ := strings.Cut(r.http.Header.Get("Content-Type"), ";")
		o, err := w.patch(r.Key(), types.PatchType(kind), r.Patch, r.Subresource)
		return a.one(r, http.StatusOK, o, err)
	case "delete":
		return a.delete(w, r)
	}
	return a.deleteAll(w, r)
}

// one answers with an object in the requested form.
func (a *API) one(r *Request, code int, o *unstructured.Unstructured, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{code: code, doc: render(r)(o)}, nil
}

// metadataOnly reports whether the caller wants metadata only.
func metadataOnly(h *http.Request) bool {
	return strings.Contains(h.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// render returns a function that converts objects to the requested form: whole in the requested version, or metadata only.
func render(r *Request) func(*unstructured.Unstructured) map[string]any {
	meta, version := metadataOnly(r.http), r.kind.gvk.GroupVersion().String()
	return func(o *unstructured.Unstructured) map[string]any {
		if meta {
			return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o.Object["metadata"]}
		}
		if o.GetAPIVersion() == version {
			return o.Object
		}
		out := make(map[string]any, len(o.Object))
		for k, v := range o.Object {
			out[k] = v
		}
		out["apiVersion"] = version
		return out
	}
}

func (a *API) selection(r *Request) (selection, error) {
	p := selection{namespace: r.Namespace}
	var err error
	if s := r.query.Get("labelSelector"); s != "" {
		if p.labels, err = labels.Parse(s); err != nil {
			return p, apierrors.NewBadRequest(err.Error())
		}
	}
	s := r.query.Get("fieldSelector")
	if r.Name != "" {
		s = strings.Trim(s+",metadata.name="+r.Name, ",")
	}
	if s != "" {
		if p.fields, err = fields.ParseSelector(s); err != nil {
			return p, apierrors.NewBadRequest(err.Error())
		}
	}
	return p, nil
}

// list answers with all selected objects, in pages if there is a limit. Each page is taken from the current state.
func (a *API) list(r *Request) (answer, error) {
	found, next, err := a.page(r)
	if err != nil {
		return answer{}, err
	}
	return a.many(r, found, next), nil
}

// page returns the selected objects of the page that the request is for, and the token of the next page if there is one. The
// token is the key of the last object before the page.
func (a *API) page(r *Request) (found []*unstructured.Unstructured, next string, err error) {
	p, err := a.selection(r)
	if err != nil {
		return nil, "", err
	}
	found = a.store.table(r.kind.groupResource()).list(p)
	if ns, name, ok := strings.Cut(r.query.Get("continue"), "/"); ok {
		last := client.Key{Namespace: ns, Name: name}
		found = slices.DeleteFunc(found, func(o *unstructured.Unstructured) bool { return byKey(client.KeyOf(o), last) <= 0 })
	}
	if limit, _ := strconv.Atoi(r.query.Get("limit")); limit > 0 && len(found) > limit && r.query.Get("resourceVersion") != "0" {
		found = found[:limit]
		next = client.KeyOf(found[limit-1]).String()
	}
	return found, next, nil
}

// many answers with a list of objects.
func (a *API) many(r *Request, found []*unstructured.Unstructured, next string) answer {
	meta := map[string]any{"resourceVersion": strconv.FormatUint(a.store.version, 10)}
	if next != "" {
		meta["continue"] = next
	}
	show := render(r)
	items := make([]any, 0, len(found))
	for _, o := range found {
		one := show(o)
		bare := make(map[string]any, len(one))
		for k, v := range one {
			if k != "kind" && k != "apiVersion" {
				bare[k] = v
			}
		}
		items = append(items, bare)
	}
	doc := map[string]any{"kind": r.kind.gvk.Kind + "List", "apiVersion": r.kind.gvk.GroupVersion().String(), "metadata": meta, "items": items}
	if metadataOnly(r.http) {
		doc["kind"], doc["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return answer{code: http.StatusOK, doc: doc}
}

// watch answers with the changes after a version, or with the current state first.
func (a *API) watch(r *Request) (answer, error) {
	p, err := a.selection(r)
	if err != nil {
		return answer{}, err
	}
	t := a.store.table(r.kind.groupResource())
	version, _ := strconv.ParseUint(r.query.Get("resourceVersion"), 10, 64)
	initial := r.query.Get("sendInitialEvents") == "true"
	if version != 0 && version < t.compacted && !initial {
		return answer{}, apierrors.NewResourceExpired("too old resource version: " + r.query.Get("resourceVersion"))
	}
	seconds, _ := strconv.Atoi(r.query.Get("timeoutSeconds"))
	s := newStream(r.http.Context(), p, render(r), time.Duration(seconds)*time.Second)
	s.frozen = t.frozen
	if version == 0 || initial {
		for _, o := range t.list(p) {
			s.send("ADDED", s.render(o), 0)
		}
		if initial {
			s.bookmark(r.kind, strconv.FormatUint(a.store.version, 10), true)
		}
	} else {
		for _, c := range t.history {
			if c.version > version {
				s.change(c, t.delay)
			}
		}
	}
	t.streams = append(t.streams, s)
	return answer{stream: s}, nil
}

// deleteOptions decodes the body of a delete, whatever group and version the caller's codec has set in it.
func (a *API) deleteOptions(r *Request) (o metav1.DeleteOptions, err error) {
	switch magic := []byte("k8s\x00"); {
	case len(r.body) == 0:
		return o, nil
	case bytes.HasPrefix(r.body, magic):
		var envelope runtime.Unknown
		if err = envelope.Unmarshal(r.body[len(magic):]); err == nil {
			err = o.Unmarshal(envelope.Raw)
		}
	default:
		err = json.Unmarshal(r.body, &o)
	}
	if err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

func (a *API) delete(w *write, r *Request) (answer, error) {
	o, err := a.deleteOptions(r)
	if err != nil {
		return answer{}, err
	}
	w.dryRun = w.dryRun || len(o.DryRun) > 0
	left, gone, err := w.delete(r.Key(), o)
	if err != nil || !gone {
		return a.one(r, http.StatusOK, left, err)
	}
	return answer{code: http.StatusOK, doc: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: r.Name, Kind: r.Resource.Resource, Group: r.Resource.Group, UID: left.GetUID()},
	}}, nil
}

func (a *API) deleteAll(w *write, r *Request) (answer, error) {
	o, err := a.deleteOptions(r)
	if err != nil {
		return answer{}, err
	}
	w.dryRun = w.dryRun || len(o.DryRun) > 0
	found, next, err := a.page(r)
	if err != nil {
		return answer{}, err
	}
	for _, one := range found {
		if _, _, err := w.delete(client.KeyOf(one), o); err != nil && !apierrors.IsNotFound(err) {
			return answer{}, err
		}
	}
	return a.many(r, found, next), nil
}
