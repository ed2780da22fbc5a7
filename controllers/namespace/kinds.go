package namespace

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"orrery/kit/client"
)

// kindsMaxAge is how old a list of kinds may be. A namespace is emptied five seconds after its deletion at the
// earliest, so a list of this age was made when nothing new could be created in it any more.
const kindsMaxAge = 2 * time.Second

// kind is something that can be in a namespace and be deleted.
type kind struct {
	gvk           schema.GroupVersionKind
	gvr           schema.GroupVersionResource
	canList       bool
	canDeleteMany bool
}

// in addresses the objects of a kind in a namespace by the resource that discovery has returned: several resources may have
// the same kind, and the RESTMapper may be out of date.
func (k kind) in(namespace string) []client.Option {
	return []client.Option{client.Kind(k.gvk), client.Resource(k.gvr, true), client.InNamespace(namespace)}
}

// found is the result of a discovery. It may have failed for a part of the kinds only.
type found struct {
	kinds    []kind
	failed   error // for the groups that could not be discovered
	unparsed error // for group versions that cannot be parsed
}

// kindList discovers the kinds of the server, once for all namespaces that are deleted at about the same time.
type kindList struct {
	discover func() ([]*metav1.APIResourceList, error)

	mu   sync.Mutex // guards last and at; not held while asking
	last found
	at   time.Time
}

func (l *kindList) get(now time.Time) found {
	l.mu.Lock()
	last, at := l.last, l.at
	l.mu.Unlock()
	if now.Sub(at) < kindsMaxAge && last.failed == nil {
		return last
	}
	lists, err := l.discover()
	f := parseKinds(lists)
	if f.failed = err; err == nil && len(f.kinds) == 0 {
		f.failed = errors.New("the server names no kind that can be deleted")
	}
	l.mu.Lock()
	l.last, l.at = f, now
	l.mu.Unlock()
	return f
}

// parseKinds picks the kinds that can be deleted.
func parseKinds(lists []*metav1.APIResourceList) found {
	var f found
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			f.unparsed = errors.Join(f.unparsed, err)
			continue
		}
		for _, r := range list.APIResources {
			if !r.Namespaced || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			f.kinds = append(f.kinds, kind{
				gvk: gv.WithKind(r.Kind), gvr: gv.WithResource(r.Name),
				canList: slices.Contains(r.Verbs, "list"), canDeleteMany: slices.Contains(r.Verbs, "deletecollection"),
			})
		}
	}
	return f
}

// failureText says which groups could not be discovered.
func failureText(err error) string {
	if groups, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(groups), err)
	}
	return err.Error()
}
