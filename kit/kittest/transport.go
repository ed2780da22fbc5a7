package kittest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
)

// Request is one call to the API.
type Request struct {
	// User is the name of the controller that called, or "informers".
	User string
	// Verb is that of RBAC: get, list, watch, create, update, patch, delete or deletecollection.
	Verb string
	// Resource and Subresource identify the endpoint.
	Resource    schema.GroupVersionResource
	Subresource string
	// Namespace and Name are empty if the call has none. The Name of a create is empty until it has been carried out.
	Namespace, Name string
	// Object is the decoded body of a create or update.
	Object *unstructured.Unstructured
	// Patch is the body of a patch.
	Patch []byte

	kind  *resource
	http  *http.Request
	query url.Values
	body  []byte
}

// String returns the call as Writes lists it: "update apps/v1/replicasets/status default/web".
func (r *Request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s", r.Verb, r.Resource.GroupVersion(), r.Resource.Resource)
	if r.Subresource != "" {
		b.WriteString("/" + r.Subresource)
	}
	switch {
	case r.Namespace != "" && r.Name != "":
		b.WriteString(" " + r.Namespace + "/" + r.Name)
	case r.Namespace != "" || r.Name != "":
		b.WriteString(" " + r.Namespace + r.Name)
	}
	return b.String()
}

// Key returns the key of the object.
func (r *Request) Key() client.Key { return client.Key{Namespace: r.Namespace, Name: r.Name} }

// Param returns a parameter of the query, such as "limit" or "continue".
func (r *Request) Param(name string) string { return r.query.Get(name) }

// reads reports whether the call changes nothing.
func (r *Request) reads() bool { return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" }

// transport carries out the calls of one user. rules are what the user may do; nil means everything.
type transport struct {
	api   *API
	user  string
	rules []rbacv1.PolicyRule
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(h *http.Request) (*http.Response, error) {
	body, err := readBody(h)
	if err != nil {
		return nil, err
	}
	if err := h.Context().Err(); err != nil {
		return nil, err
	}
	if doc, ok := t.api.discover(h.URL.Path); ok {
		return respond(h, http.StatusOK, doc), nil
	}
	r, err := t.api.parse(h, body)
	if err != nil {
		return failure(h, err), nil
	}
	r.User = t.user
	if !allows(t.rules, r) {
		return failure(h, t.api.forbid(r)), nil
	}
	reaction := t.api.react(r)
	if reaction != nil && !reaction.Drop {
		if reaction.Err != nil {
			return nil, reaction.Err
		}
		return reaction.response(h), nil
	}
	answer, err := t.api.serve(r)
	t.api.record(r, err)
	switch {
	case reaction != nil:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return failure(h, err), nil
	}
	return answer.response(h), nil
}

func readBody(h *http.Request) ([]byte, error) {
	if h.Body == nil {
		return nil, nil
	}
	defer h.Body.Close()
	return io.ReadAll(h.Body)
}

// parse parses an HTTP request into a Request.
func (a *API) parse(h *http.Request, body []byte) (*Request, error) {
	parts := strings.Split(strings.Trim(h.URL.Path, "/"), "/")
	r := &Request{http: h, query: h.URL.Query(), body: body}
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, h.URL.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource = gv.WithResource(parts[0])
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	if r.kind = a.lookup(r.Resource); r.kind == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", r.Resource.GroupResource(), "", "", 0, true)
	}
	r.Verb = verbOf(h.Method, r.Name != "", r.query)
	return r, a.decodeBody(r)
}

func verbOf(method string, named bool, query url.Values) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	}
	switch watching := query.Get("watch"); {
	case watching == "true" || watching == "1":
		return "watch"
	case named:
		return "get"
	}
	return "list"
}

// decodeBody decodes the body of a create, update or patch.
func (a *API) decodeBody(r *Request) (err error) {
	switch r.Verb {
	case "patch":
		r.Patch = r.body
	case "create", "update":
		if r.Object, err = a.decode(r); err != nil {
			return err
		}
		if ns := r.Object.GetNamespace(); ns != "" && ns != r.Namespace && r.Subresource == "" {
			return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the provided object does not match the namespace sent on the request (%s, %s)", ns, r.Namespace))
		}
		r.Object.SetNamespace(r.Namespace)
		if r.Verb == "update" && r.Object.GetName() != r.Name {
			return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", r.Object.GetName(), r.Name))
		}
	}
	return nil
}

const protobuf = "application/vnd.kubernetes.protobuf"

// decode decodes a body in JSON or protobuf into a generic object.
func (a *API) decode(r *Request) (*unstructured.Unstructured, error) {
	if !strings.HasPrefix(r.http.Header.Get("Content-Type"), protobuf) {
		if r.Subresource != "" {
			return a.decodeJSON(nil, r.body)
		}
		return a.decodeJSON(r.kind, r.body)
	}
	obj, _, err := a.codecs.UniversalDeserializer().Decode(r.body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return a.generic(obj)
}

// decodeJSON decodes a JSON object. If its kind has a Go type, unknown fields are dropped, as by the server.
func (a *API) decodeJSON(r *resource, data []byte) (*unstructured.Unstructured, error) {
	if r != nil && r.typed {
		obj, err := a.scheme.New(r.gvk)
		if err == nil {
			err = json.Unmarshal(data, obj)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		obj.GetObjectKind().SetGroupVersionKind(r.gvk)
		return a.generic(obj)
	}
	u := &unstructured.Unstructured{}
	if r != nil {
		if err := json.Unmarshal(data, &u.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		u.SetGroupVersionKind(r.gvk)
		if data, err := json.Marshal(u.Object); err == nil {
			return u, u.UnmarshalJSON(data) // whole numbers become int64
		}
	}
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return u, nil
}

// generic converts an object to a generic copy with kind and apiVersion set.
func (a *API) generic(obj runtime.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	u := &unstructured.Unstructured{Object: m}
	gvks, _, err := a.scheme.ObjectKinds(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	gvk := gvks[0]
	if own := obj.GetObjectKind().GroupVersionKind(); own.Kind != "" {
		gvk = own
	}
	u.SetGroupVersionKind(gvk)
	if u.GetCreationTimestamp().Time.IsZero() {
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	}
	return u, nil
}

// respond answers with a JSON document.
func respond(h *http.Request, code int, doc any) *http.Response {
	data, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)), Request: h,
	}
}

// failure answers with the Status of an error.
func failure(h *http.Request, err error) *http.Response {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	res := respond(h, int(s.Code), s)
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		res.Header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	return res
}
