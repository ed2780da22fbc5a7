package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
	"orrery/kit/client"
)

// askTimeout is how long an answer is waited for. A server that converts with a webhook can take its time.
const askTimeout = 5 * time.Second

// questions asks the server for the scales of custom owners.
type questions struct {
	scales *scales
	again  func(budget kit.Key)

	mapper meta.RESTMapper
	scale  func(ctx context.Context, kind schema.GroupVersionKind, key kit.Key) (*autoscalingv1.Scale, error)
	serves func(groupVersion string) (*metav1.APIResourceList, error)
}

func newQuestions(cc kit.ControllerContext, s *scales, again func(kit.Key)) *questions {
	return &questions{
		scales: s, again: again, mapper: cc.Client.Mapper(), serves: cc.Discovery.ServerResourcesForGroupVersion,
		scale: func(ctx context.Context, kind schema.GroupVersionKind, key kit.Key) (*autoscalingv1.Scale, error) {
			return client.Get[autoscalingv1.Scale](ctx, cc.Live, key, client.Kind(kind), client.Subresource("scale"))
		},
	}
}

// Reconcile asks for the scale of one owner and calls the budgets that wait for it. A failure is an answer too: the
// budgets know when to ask again.
func (q *questions) Reconcile(ctx context.Context, o owner) (kit.Result, error) {
	a, ask := q.scales.begin(o, time.Now())
	if ask {
		if a = q.put(ctx, o); ctx.Err() != nil {
			return kit.Done, ctx.Err() // the process is stopping
		}
	}
	for _, budget := range q.scales.end(o, a, ask, time.Now()) {
		q.again(budget)
	}
	return kit.Done, nil
}

// put asks for a scale.
func (q *questions) put(ctx context.Context, o owner) answer {
	mapping, err := q.mapping(o.kind)
	if err != nil {
		return answer{err: err, ofKind: true}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	scale, err := q.scale(ctx, mapping.GroupVersionKind, kit.Key{Namespace: o.namespace, Name: o.name})
	switch {
	case apierrors.IsNotFound(err):
		return q.missing(mapping.Resource)
	case err != nil:
		return answer{err: err, ofKind: slow(err)}
	case scale.UID != o.uid:
		return answer{err: errNoOwner}
	}
	return answer{replicas: scale.Spec.Replicas}
}

// mapping finds the resource of a kind, in the version that owner references name or else in the one that the server
// prefers. A kind that is not known is looked for once more, as it may have come since.
func (q *questions) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := q.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if !meta.IsNoMatchError(err) {
		return m, err
	}
	meta.MaybeResetRESTMapper(q.mapper)
	if m, now := q.mapper.RESTMapping(kind.GroupKind(), kind.Version); now == nil {
		return m, nil
	}
	if m, now := q.mapper.RESTMapping(kind.GroupKind()); now == nil {
		return m, nil
	}
	return nil, err
}

// missing tells an owner that does not exist from a kind without a scale.
func (q *questions) missing(resource schema.GroupVersionResource) answer {
	list, err := q.serves(resource.GroupVersion().String())
	if err != nil {
		return answer{err: err, ofKind: true}
	}
	scale := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == resource.Resource+"/scale" && r.Kind == scale.Kind && r.Group == scale.Group && r.Version == scale.Version
	}) {
		return answer{err: errNoOwner}
	}
	return answer{err: fmt.Errorf("%s does not implement the scale subresource", resource.GroupResource()), ofKind: true}
}

// slow reports whether a failure took up the time of a worker, as those of a server behind the server do.
func slow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)
}
