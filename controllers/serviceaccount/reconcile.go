package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// defaultAccount is the account of pods that name no other.
const defaultAccount = "default"

type reconciler struct {
	accounts cache.Store[*corev1.ServiceAccount]
	client   *client.Client
}

// Reconcile creates the default account of a namespace if it is missing.
func (r *reconciler) Reconcile(ctx context.Context, ns *corev1.Namespace) (kit.Result, error) {
	if ns.Status.Phase != corev1.NamespaceActive {
		return kit.Done, nil
	}
	if _, ok := r.accounts.Get(kit.Key{Namespace: ns.Name, Name: defaultAccount}); ok {
		return kit.Done, nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: defaultAccount}}
	if _, err := client.Create(ctx, r.client, account); err != nil {
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			return kit.Done, nil // the cache is behind: the account exists, or the namespace does not
		}
		return kit.Done, fmt.Errorf("create service account %s: %w", klog.KObj(account), err)
	}
	klog.FromContext(ctx).V(2).Info("Created default service account", "namespace", ns.Name)
	return kit.Done, nil
}
