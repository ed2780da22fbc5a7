package client

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// askAgain is the least time between two requests for the same kind that the server does not serve.
	askAgain = time.Second
	// askedKinds is the number of such kinds from which on those not asked for within askAgain are forgotten. It bounds the
	// memory: whoever may write objects can make them refer to any number of kinds.
	askedKinds = 1000
)

// Mapper maps kinds to resources, including those of CustomResourceDefinitions that are installed while it is in use: it
// asks the server about a kind that it does not know, at most once a second, and repeats the discovery if the server has
// the kind by now.
type Mapper struct {
	*restmapper.DeferredDiscoveryRESTMapper
	discovery discovery.DiscoveryInterface
	known     discovery.CachedDiscoveryInterface

	mu    sync.Mutex // guards asked
	asked map[schema.GroupKind]time.Time
}

// NewMapper returns a mapper that has not asked the server for anything yet. A nil HTTP client is made from the config.
func NewMapper(config *rest.Config, h *http.Client) (*Mapper, error) {
	if h == nil {
		var err error
		if h, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("make HTTP client for %s: %w", config.Host, err)
		}
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(config, h)
	if err != nil {
		return nil, fmt.Errorf("discovery client for %s: %w", config.Host, err)
	}
	known := memory.NewMemCacheClient(d)
	return &Mapper{
		DeferredDiscoveryRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(known),
		discovery:                   d, known: known, asked: map[schema.GroupKind]time.Time{},
	}, nil
}

// Discovery returns a client that asks the server each time.
func (m *Mapper) Discovery() discovery.DiscoveryInterface { return m.discovery }

// Known returns a client that answers from what the mapper knows, and asks the server for the rest.
func (m *Mapper) Known() discovery.CachedDiscoveryInterface { return m.known }

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := m.DeferredDiscoveryRESTMapper.RESTMapping(gk, versions...)
	if !m.outdated(gk, versions, err) {
		return found, err
	}
	m.Reset()
	return m.DeferredDiscoveryRESTMapper.RESTMapping(gk, versions...)
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	found, err := m.DeferredDiscoveryRESTMapper.RESTMappings(gk, versions...)
	if !m.outdated(gk, versions, err) {
		return found, err
	}
	m.Reset()
	return m.DeferredDiscoveryRESTMapper.RESTMappings(gk, versions...)
}

// outdated reports whether err says that a kind is unknown although the server has it by now.
func (m *Mapper) outdated(gk schema.GroupKind, versions []string, err error) bool {
	if !IsNotServed(err) {
		return false
	}
	m.mu.Lock()
	now := time.Now()
	again := now.Sub(m.asked[gk]) >= askAgain
	if again {
		m.note(gk, now)
	}
	m.mu.Unlock()
	return again && m.serves(gk, versions)
}

// note remembers when a kind was asked for. m.mu is held.
func (m *Mapper) note(gk schema.GroupKind, now time.Time) {
	if len(m.asked) >= askedKinds {
		maps.DeleteFunc(m.asked, func(_ schema.GroupKind, at time.Time) bool { return now.Sub(at) >= askAgain })
	}
	m.asked[gk] = now
}

// IsNotServed reports whether an error says that discovery does not have a kind, or did not have its whole group.
func IsNotServed(err error) bool {
	var kind *meta.NoKindMatchError
	var resource *meta.NoResourceMatchError
	var group *discovery.ErrGroupDiscoveryFailed
	return errors.As(err, &kind) || errors.As(err, &resource) || errors.As(err, &group)
}

// serves asks the server for the kind, in one request for each version. A server that cannot be asked counts as not
// having it.
func (m *Mapper) serves(gk schema.GroupKind, versions []string) bool {
	if len(versions) == 0 {
		versions = m.versions(gk.Group)
	}
	for _, v := range versions {
		if has, err := Served(m.discovery, gk.WithVersion(v)); err == nil && has {
			return true
		}
	}
	return false
}

// versions returns the versions in which the server has a group.
func (m *Mapper) versions(group string) []string {
	if group == "" {
		return []string{"v1"}
	}
	groups, err := m.discovery.ServerGroups()
	if err != nil {
		return nil
	}
	for _, g := range groups.Groups {
		if g.Name != group {
			continue
		}
		var out []string
		for _, v := range g.Versions {
			out = append(out, v.Version)
		}
		return out
	}
	return nil
}

// Served reports whether the server has a kind now, whatever the mapper remembers. An error means that the server could
// not be asked.
func Served(d discovery.ServerResourcesInterface, gvk schema.GroupVersionKind) (bool, error) {
	list, err := d.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for the resources of %s: %w", gvk.GroupVersion(), err)
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind {
			return true, nil
		}
	}
	return false, nil
}

// ServesResource reports whether the server serves a resource. If the server cannot be asked about its group, the resource
// counts as served, so that a short failure at the start does not turn a controller of an optional API off.
func ServesResource(d discovery.ServerResourcesInterface, gvr schema.GroupVersionResource) bool {
	list, err := d.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if err != nil || list == nil {
		return err != nil && !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource })
}

var _ meta.ResettableRESTMapper = (*Mapper)(nil)
