package rootcapublisher

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/cafile"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

const (
	descriptionAnnotation = "kubernetes.io/description"
	// description is the same as upstream's, so that neither implementation rewrites the other's object.
	description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

type reconciler struct {
	namespaces cache.Store[*corev1.Namespace]
	configMaps cache.Store[*corev1.ConfigMap]
	client     *client.Client
	ca         *cafile.File
	metrics    metrics
}

// Reconcile brings the ConfigMap of the namespace up to date.
func (r *reconciler) Reconcile(ctx context.Context, namespace string) (kit.Result, error) {
	start := time.Now()
	err := r.publish(ctx, namespace)
	r.metrics.observe(err, time.Since(start))
	return kit.Done, err
}

func (r *reconciler) publish(ctx context.Context, namespace string) error {
	ns, ok := r.namespaces.Get(kit.Key{Name: namespace})
	if !ok || ns.Status.Phase != corev1.NamespaceActive {
		return nil
	}
	old, _ := r.configMaps.Get(kit.Key{Namespace: namespace, Name: configMapName})
	want := desired(namespace, old, string(r.ca.Bundle()))
	var err error
	switch {
	case want == nil:
		return nil
	case old == nil:
		_, err = client.Create(ctx, r.client, want)
	default:
		_, err = client.Update(ctx, r.client, want)
	}
	if apierrors.IsNotFound(err) || client.IsNamespaceTerminating(err) {
		return nil // the namespace is terminating or deleted
	}
	if err != nil {
		return fmt.Errorf("publish the CA in namespace %s: %w", namespace, err)
	}
	klog.FromContext(ctx).V(2).Info("Published the CA", "namespace", namespace)
	return nil
}

// desired returns the ConfigMap to write, or nil if the old one is up to date. A different description alone is no reason to
// write, but a write for another reason replaces it.
func desired(namespace string, old *corev1.ConfigMap, bundle string) *corev1.ConfigMap {
	data := map[string]string{"ca.crt": bundle}
	if old == nil {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: configMapName,
				Annotations: map[string]string{descriptionAnnotation: description},
			},
			Data: data,
		}
	}
	if old.Annotations[descriptionAnnotation] != "" && maps.Equal(old.Data, data) {
		return nil
	}
	c := old.DeepCopy()
	c.Data = data
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, descriptionAnnotation, description)
	return c
}
