package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// ownerKind is the kind of a Deployment in owner references.
var ownerKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// api is everything that the reconciler needs from the cluster. Writes return the object as stored.
type api struct {
	// claimed adopts and releases ReplicaSets as needed, and returns those that the Deployment controls afterwards. Newly
	// adopted ones are returned as the server stored them, since the cache does not show the adoption yet.
	claimed func(context.Context, *appsv1.Deployment) ([]*appsv1.ReplicaSet, error)
	// podsOf returns the pods that a ReplicaSet controls.
	podsOf func(*appsv1.ReplicaSet) []*corev1.Pod
	// liveSet reads a ReplicaSet from the server.
	liveSet func(context.Context, kit.Key) (*appsv1.ReplicaSet, error)

	createSet    func(context.Context, *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error)
	updateSet    func(context.Context, *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error)
	deleteSet    func(context.Context, *appsv1.ReplicaSet) error
	update       func(context.Context, *appsv1.Deployment) (*appsv1.Deployment, error)
	updateStatus func(context.Context, *appsv1.Deployment) (*appsv1.Deployment, error)
}

func newAPI(cc kit.ControllerContext, sets cache.Store[*appsv1.ReplicaSet], pods cache.Store[*corev1.Pod]) api {
	return api{
		claimed: func(ctx context.Context, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, error) {
			selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
			if err != nil {
				return nil, kit.Terminal(fmt.Errorf("read selector: %w", err))
			}
			c := claim.Claimer[*appsv1.ReplicaSet]{
				Owner: d, Kind: ownerKind, Selector: selector,
				Recheck: claim.Live(cc.Live, d), Patch: claim.Patches[appsv1.ReplicaSet](cc.Client),
				Adopt: claim.Adoptions[appsv1.ReplicaSet](cc.Client),
			}
			known := index.Owned(sets, index.ByController[*appsv1.ReplicaSet](), d)
			return c.Claim(ctx, append(known, sets.By(index.Orphans[*appsv1.ReplicaSet](), d.Namespace)...))
		},
		podsOf: func(rs *appsv1.ReplicaSet) []*corev1.Pod {
			return index.Owned(pods, index.ByController[*corev1.Pod](), rs)
		},
		liveSet: func(ctx context.Context, key kit.Key) (*appsv1.ReplicaSet, error) {
			return client.Get[appsv1.ReplicaSet](ctx, cc.Live, key)
		},
		createSet: func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return client.Create(ctx, cc.Client, rs)
		},
		updateSet: func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return client.Update(ctx, cc.Client, rs)
		},
		deleteSet: func(ctx context.Context, rs *appsv1.ReplicaSet) error {
			return client.Delete(ctx, cc.Client, rs, client.IfUID(rs.UID))
		},
		update: func(ctx context.Context, d *appsv1.Deployment) (*appsv1.Deployment, error) {
			return client.Update(ctx, cc.Client, d)
		},
		updateStatus: func(ctx context.Context, d *appsv1.Deployment) (*appsv1.Deployment, error) {
			return client.UpdateStatus(ctx, cc.Client, d)
		},
	}
}
