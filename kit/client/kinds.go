package client

import (
	"fmt"
	"net/http"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// form is how an object is represented in memory, which decides how it is requested.
type form int

const (
	structured form = iota
	dynamicForm
	metadataOnly
)

func formOf(obj runtime.Object) form {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataOnly
	case *unstructured.Unstructured, *unstructured.UnstructuredList:
		return dynamicForm
	}
	return structured
}

// resource is where a kind lives: the REST client of its group and version, and its name there.
type resource struct {
	rest       rest.Interface
	gvk        schema.GroupVersionKind
	gvr        schema.GroupVersionResource
	namespaced bool
	form       form
}

// Accept headers that make the server answer metadata only: objects, events and collections have different types.
const (
	acceptMetadata     = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	acceptMetadataList = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// begin returns a request to the resource, for one object or its events.
func (r *resource) begin(verb *rest.Request, namespace string, namespaced bool) *rest.Request {
	if r.form == metadataOnly {
		verb = verb.SetHeader("Accept", acceptMetadata)
	}
	return verb.NamespaceIfScoped(namespace, namespaced).Resource(r.gvr.Resource)
}

// many returns a request for a collection; an empty namespace means all.
func (r *resource) many(verb *rest.Request, namespace string) *rest.Request {
	req := r.begin(verb, namespace, r.namespaced && namespace != "")
	if r.form == metadataOnly {
		req = req.SetHeader("Accept", acceptMetadataList)
	}
	return req
}

// one returns a request for one object.
func (r *resource) one(verb *rest.Request, key Key) *rest.Request {
	return r.begin(verb, key.Namespace, r.namespaced).Name(key.Name)
}

type resourceID struct {
	gvk  schema.GroupVersionKind
	form form
}

// place is a resource that a call names itself; see Resource.
type place struct {
	gvr        schema.GroupVersionResource
	namespaced bool
}

type restID struct {
	gv   schema.GroupVersion
	form form
}

// kinds finds the resource of a kind and remembers it. Nothing is asked of the server while mu is held.
type kinds struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs runtime.NegotiatedSerializer // of structured objects
	mapper meta.RESTMapper
	buffers
	types sync.Map // reflect.Type to schema.GroupVersionKind; saves the scheme's locks on every call

	mu        sync.RWMutex // guards resources and clients
	resources map[resourceID]*resource
	clients   map[restID]rest.Interface
}

func newKinds(config *rest.Config, o Options) (*kinds, error) {
	if o.Scheme == nil || o.Mapper == nil {
		return nil, fmt.Errorf("client options: Scheme and Mapper are required")
	}
	h := o.HTTPClient
	if h == nil {
		var err error
		if h, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("make HTTP client for %s: %w", config.Host, err)
		}
	}
	return &kinds{
		config: config, http: h, scheme: o.Scheme, codecs: serializer.NewCodecFactory(o.Scheme).WithoutConversion(), mapper: o.Mapper,
		resources: map[resourceID]*resource{}, clients: map[restID]rest.Interface{},
	}, nil
}

func (k *kinds) gvkFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	if formOf(obj) != structured {
		gvk := obj.GetObjectKind().GroupVersionKind()
		if gvk.Kind == "" || gvk.Version == "" {
			return gvk, fmt.Errorf("a %T must carry its kind and API version", obj)
		}
		return gvk, nil
	}
	t := reflect.TypeOf(obj)
	if gvk, ok := k.types.Load(t); ok {
		return gvk.(schema.GroupVersionKind), nil
	}
	gvks, _, err := k.scheme.ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("find the kind of %T: %w", obj, err)
	}
	k.types.Store(t, gvks[0])
	return gvks[0], nil
}

func (k *kinds) resourceFor(gvk schema.GroupVersionKind, f form) (*resource, error) {
	id := resourceID{gvk, f}
	k.mu.RLock()
	r := k.resources[id]
	k.mu.RUnlock()
	if r != nil {
		return r, nil
	}
	m, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	c, err := k.clientFor(restID{gvk.GroupVersion(), f})
	if err != nil {
		return nil, err
	}
	r = &resource{rest: c, gvk: gvk, gvr: m.Resource, namespaced: m.Scope.Name() == meta.RESTScopeNameNamespace, form: f}
	k.mu.Lock()
	k.resources[id] = r
	k.mu.Unlock()
	return r, nil
}

// resourceAt is resourceFor, unless the call names the resource itself.
func (k *kinds) resourceAt(gvk schema.GroupVersionKind, f form, at *place) (*resource, error) {
	if at == nil {
		return k.resourceFor(gvk, f)
	}
	c, err := k.clientFor(restID{at.gvr.GroupVersion(), f})
	if err != nil {
		return nil, err
	}
	return &resource{rest: c, gvk: gvk, gvr: at.gvr, namespaced: at.namespaced, form: f}, nil
}

// forget drops what is known of where a kind lives.
func (k *kinds) forget(gvk schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range [...]form{structured, dynamicForm, metadataOnly} {
		delete(k.resources, resourceID{gvk, f})
	}
}

func (k *kinds) clientFor(id restID) (rest.Interface, error) {
	k.mu.RLock()
	c := k.clients[id]
	k.mu.RUnlock()
	if c != nil {
		return c, nil
	}
	config := k.configFor(id)
	made, err := rest.RESTClientForConfigAndClient(config, k.http)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", id.gv, err)
	}
	k.mu.Lock()
	k.clients[id] = made
	k.mu.Unlock()
	return made, nil
}

func (k *kinds) configFor(id restID) *rest.Config {
	var config *rest.Config
	switch id.form {
	case dynamicForm:
		config = dynamic.ConfigFor(k.config)
	case metadataOnly:
		config = metadata.ConfigFor(k.config)
	default:
		config = rest.CopyConfig(k.config)
		config.NegotiatedSerializer = k.codecs
		if !k.protobufFor(id.gv) {
			config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		}
	}
	gv := id.gv
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	return config
}

// protobufFor reports whether the group's Go types can travel as protobuf; types of our own API groups cannot.
func (k *kinds) protobufFor(gv schema.GroupVersion) bool {
	for _, t := range k.scheme.KnownTypes(gv) {
		if t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" {
			continue
		}
		if _, ok := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) }); !ok {
			return false
		}
	}
	return true
}
