package nodepool

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"orrery/api/nodes/v1alpha1"
	"orrery/api/nodes/v1alpha1/admission"
	"orrery/kit/client"
	"orrery/kit/webhook"
)

// Webhook returns the admission handlers for NodePools. They read other objects through live, and only if the spec has
// changed: no other object may block an update of a pool's finalizers and metadata.
func Webhook(live *client.Client) webhook.Handlers[*v1alpha1.NodePool] {
	return webhook.Handlers[*v1alpha1.NodePool]{
		Default: func(_ context.Context, _ *webhook.Request, p *v1alpha1.NodePool) error {
			if p.DeletionTimestamp == nil {
				admission.Default(p)
			}
			return nil
		},
		Validate: func(ctx context.Context, r *webhook.Request, old, p *v1alpha1.NodePool) ([]string, error) {
			if p == nil || p.DeletionTimestamp != nil || old != nil && reflect.DeepEqual(old.Spec, p.Spec) {
				return nil, nil
			}
			w, err := world(ctx, live)
			if err != nil {
				return nil, webhook.Failure(err)
			}
			return admission.Warnings(old, p, w), webhook.Invalid(r, admission.Validate(old, p, w))
		},
	}
}

// world reads what a pool is validated against. The server may answer from its cache: races are left to the controller.
func world(ctx context.Context, live *client.Client) (admission.World, error) {
	var w admission.World
	pools, err := client.List[unstructured.Unstructured](ctx, live, client.Kind(v1alpha1.NodePoolKind), client.AtLeast("0"))
	if err != nil {
		return w, fmt.Errorf("list NodePools: %w", err)
	}
	for _, raw := range pools {
		w.Pools = append(w.Pools, newKnown(raw).api)
	}
	nodes, err := client.List[metav1.PartialObjectMetadata](ctx, live, client.Kind(corev1.SchemeGroupVersion.WithKind("Node")), client.AtLeast("0"))
	if err != nil {
		return w, fmt.Errorf("list nodes: %w", err)
	}
	w.NodeLabels = func(yield func(map[string]string) bool) {
		for _, n := range nodes {
			if !yield(n.Labels) {
				return
			}
		}
	}
	classes, err := client.List[nodev1.RuntimeClass](ctx, live, client.AtLeast("0"))
	if err != nil {
		return w, fmt.Errorf("list RuntimeClasses: %w", err)
	}
	owners := map[string]types.UID{}
	for _, rc := range classes {
		owners[rc.Name] = ""
		if ref := metav1.GetControllerOfNoCopy(rc); ref != nil {
			owners[rc.Name] = ref.UID
		}
	}
	w.RuntimeClassOwner = func(name string) (types.UID, bool) {
		owner, ok := owners[name]
		return owner, ok
	}
	return w, nil
}
