package kittest

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// resource is one kind in one version, and its properties.
type resource struct {
	gvk        schema.GroupVersionKind
	plural     string
	namespaced bool
	status     bool // has the status subresource
	generation bool // metadata.generation counts changes of the spec
	typed      bool // has a Go type in the scheme
	scale      bool // has the scale subresource
}

func (r *resource) gvr() schema.GroupVersionResource {
	return r.gvk.GroupVersion().WithResource(r.plural)
}

func (r *resource) groupResource() schema.GroupResource { return r.gvr().GroupResource() }

// clusterScoped are the built-in kinds without a namespace.
var clusterScoped = strings.Fields(`
	Node Namespace PersistentVolume ComponentStatus ClusterRole ClusterRoleBinding StorageClass CSIDriver CSINode
	VolumeAttachment VolumeAttributesClass PriorityClass RuntimeClass IngressClass CertificateSigningRequest
	ClusterTrustBundle APIService CustomResourceDefinition MutatingWebhookConfiguration ValidatingWebhookConfiguration
	ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
	FlowSchema PriorityLevelConfiguration ResourceSlice DeviceClass DeviceTaintRule ServiceCIDR IPAddress StorageVersion
	StorageVersionMigration LeaseCandidateClass ResourcePoolStatusRequest`)

// noGeneration are the built-in groups, and noGenerationKinds the kinds of other groups, whose objects have no generation.
var (
	noGeneration      = strings.Fields(`rbac.authorization.k8s.io certificates.k8s.io coordination.k8s.io node.k8s.io events.k8s.io resource.k8s.io storagemigration.k8s.io internal.apiserver.k8s.io`)
	generationOfCore  = strings.Fields(`Pod ReplicationController`)
	noGenerationKinds = strings.Fields(`ControllerRevision StorageClass CSINode VolumeAttachment CSIStorageCapacity VolumeAttributesClass IPAddress ServiceCIDR`)
)

func countsGeneration(gvk schema.GroupVersionKind) bool {
	if gvk.Group == "" {
		return slices.Contains(generationOfCore, gvk.Kind)
	}
	return !slices.Contains(noGeneration, gvk.Group) && !slices.Contains(noGenerationKinds, gvk.Kind)
}

// scalable are the built-in kinds with the scale subresource.
var scalable = strings.Fields(`Deployment ReplicaSet ReplicationController StatefulSet`)

var stable = regexp.MustCompile(`^v[0-9]+$`)

// builtin are the kinds of client-go's scheme. The result is shared and read-only.
var builtin = sync.OnceValue(func() []*resource { return kindsOf(clientscheme.Scheme) })

// kindsOf returns the kinds of a scheme that have a list type.
func kindsOf(s *runtime.Scheme) []*resource {
	var out []*resource
	types := s.AllKnownTypes()
	for gvk, t := range types {
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		if _, ok := types[gvk.GroupVersion().WithKind(gvk.Kind+"List")]; !ok {
			continue
		}
		if f, ok := t.FieldByName("ObjectMeta"); !ok || f.Type != reflect.TypeFor[metav1.ObjectMeta]() {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		_, status := t.FieldByName("Status")
		out = append(out, &resource{
			gvk: gvk, plural: plural.Resource, namespaced: !slices.Contains(clusterScoped, gvk.Kind),
			status: status, generation: countsGeneration(gvk), typed: true, scale: slices.Contains(scalable, gvk.Kind),
		})
	}
	slices.SortFunc(out, func(a, b *resource) int { return strings.Compare(a.gvk.String(), b.gvk.String()) })
	return out
}

// registry finds resources by name and by kind.
type registry struct {
	byName map[schema.GroupVersionResource]*resource
	byKind map[schema.GroupVersionKind]*resource
	mapper *meta.DefaultRESTMapper
	extra  map[schema.GroupVersionResource]bool // true: served although not stable; false: hidden although stable
}

// safeMapper lets kinds be added while controllers look others up.
type safeMapper struct {
	meta.RESTMapper
	mu *sync.Mutex // that of the API, which guards the registry
}

// RESTMapping implements meta.RESTMapper.
func (m safeMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.RESTMapper.RESTMapping(gk, versions...)
}

func newRegistry() *registry {
	g := &registry{
		byName: map[schema.GroupVersionResource]*resource{},
		byKind: map[schema.GroupVersionKind]*resource{},
		extra:  map[schema.GroupVersionResource]bool{},
		mapper: meta.NewDefaultRESTMapper(clientscheme.Scheme.PrioritizedVersionsAllGroups()),
	}
	for _, r := range builtin() {
		g.add(r)
	}
	return g
}

func (g *registry) add(r *resource) {
	if old := g.byName[r.gvr()]; old != nil && (old.typed || g.serves(r.gvr())) {
		return
	}
	g.byName[r.gvr()] = r
	if first := g.byKind[r.gvk]; first != nil && g.serves(first.gvr()) {
		return // a second resource of the kind, to which the mapper does not lead
	}
	g.byKind[r.gvk] = r
	scope := meta.RESTScopeRoot
	if r.namespaced {
		scope = meta.RESTScopeNamespace
	}
	g.mapper.AddSpecific(r.gvk, r.gvr(), r.gvk.GroupVersion().WithResource(strings.ToLower(r.gvk.Kind)), scope)
}

// serves reports whether a default API server serves the resource.
func (g *registry) serves(gvr schema.GroupVersionResource) bool {
	if on, ok := g.extra[gvr]; ok {
		return on
	}
	r := g.byName[gvr]
	return r != nil && (stable.MatchString(gvr.Version) || !r.typed)
}

// verbs are what discovery reports for every resource.
var verbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// resourceList is the discovery document of one group version.
func (g *registry) resourceList(gv schema.GroupVersion) *metav1.APIResourceList {
	out := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for gvr, r := range g.byName {
		if gvr.GroupVersion() != gv || !g.serves(gvr) {
			continue
		}
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name: r.plural, SingularName: strings.ToLower(r.gvk.Kind), Namespaced: r.namespaced, Kind: r.gvk.Kind, Verbs: verbs,
		})
		if r.status {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: r.plural + "/status", Namespaced: r.namespaced, Kind: r.gvk.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
		if r.scale {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: r.plural + "/scale", Namespaced: r.namespaced, Group: "autoscaling", Version: "v1", Kind: "Scale",
				Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	slices.SortFunc(out.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// groupList is the discovery document of all groups but the core one. The preferred version comes first.
func (g *registry) groupList() *metav1.APIGroupList {
	versions := map[string][]string{}
	for gvr := range g.byName {
		if gvr.Group != "" && g.serves(gvr) && !slices.Contains(versions[gvr.Group], gvr.Version) {
			versions[gvr.Group] = append(versions[gvr.Group], gvr.Version)
		}
	}
	out := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for group, vs := range versions {
		slices.SortFunc(vs, func(a, b string) int { return -compareVersions(a, b) })
		one := metav1.APIGroup{Name: group}
		for _, v := range vs {
			one.Versions = append(one.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + v, Version: v})
		}
		one.PreferredVersion = one.Versions[0]
		out.Groups = append(out.Groups, one)
	}
	slices.SortFunc(out.Groups, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// compareVersions puts stable versions above others, and later ones above earlier ones.
func compareVersions(a, b string) int {
	sa, sb := stable.MatchString(a), stable.MatchString(b)
	switch {
	case sa && !sb:
		return 1
	case sb && !sa:
		return -1
	}
	return strings.Compare(a, b)
}
