package serviceaccounttoken

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

type reconciler struct {
	accounts cache.Store[*corev1.ServiceAccount]
	secrets  cache.Store[*corev1.Secret]
	live     *client.Client
	sign     func(*corev1.ServiceAccount, *corev1.Secret) (string, error)
	ca       func() []byte
}

// Reconcile fills in a token Secret, deletes it if its account does not exist, or removes the reference to a deleted one.
func (r *reconciler) Reconcile(ctx context.Context, key secretKey) (kit.Result, error) {
	secret, ok := r.secrets.Get(kit.Key{Namespace: key.namespace, Name: key.name})
	if !ok || secret.UID != key.uid {
		return kit.Done, r.dropReference(ctx, key)
	}
	if !slices.Contains(secretKeys(secret), key) {
		return kit.Done, nil // it has been changed to name another account, for which there is another key
	}
	account, err := r.account(ctx, key)
	switch {
	case err != nil:
		return kit.Done, err
	case account == nil:
		return kit.Done, r.delete(ctx, secret)
	case !r.incomplete(secret).any():
		return kit.Done, nil
	}
	return kit.Done, r.fill(ctx, account, secret)
}

// reconcileAccount deletes the token Secrets of a deleted account. Since the key has the UID, which comes from an event, an
// account that is missing has existed before.
func (r *reconciler) reconcileAccount(ctx context.Context, key accountKey) (kit.Result, error) {
	now, ok := r.accounts.Get(kit.Key{Namespace: key.namespace, Name: key.name})
	if ok && now.UID == key.uid {
		return kit.Done, nil
	}
	var errs []error
	for _, s := range r.secrets.By(tokensByAccount(), key.namespace+"/"+key.name) {
		switch s.Annotations[corev1.ServiceAccountUIDKey] {
		case string(key.uid):
			errs = append(errs, r.delete(ctx, s))
		case "":
			errs = append(errs, r.deleteIfOrphan(ctx, s, key))
		}
	}
	return kit.Done, errors.Join(errs...)
}

// deleteIfOrphan deletes a Secret that names a deleted account, but not its UID, unless the account has been created again
// since, and the Secret no earlier than that. A Secret that was created complete is never filled in, and so has no UID.
func (r *reconciler) deleteIfOrphan(ctx context.Context, s *corev1.Secret, of accountKey) error {
	account, err := r.account(ctx, secretKey{namespace: of.namespace, account: of.name})
	if err != nil || account != nil && !s.CreationTimestamp.Before(&account.CreationTimestamp) {
		return err
	}
	return r.delete(ctx, s)
}

// account returns the account that a Secret names, or nil if the server has none with that UID.
func (r *reconciler) account(ctx context.Context, key secretKey) (*corev1.ServiceAccount, error) {
	name := kit.Key{Namespace: key.namespace, Name: key.account}
	if a, ok := r.accounts.Get(name); ok && is(a, key.accountUID) {
		return a, nil
	}
	a, err := client.Get[corev1.ServiceAccount](ctx, r.live, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read service account %s: %w", name, err)
	case !is(a, key.accountUID):
		return nil, nil
	}
	return a, nil
}

// is reports whether an account has the given UID; an empty UID matches any account.
func is(a *corev1.ServiceAccount, uid types.UID) bool { return uid == "" || a.UID == uid }

// delete deletes a Secret, bound to the version in the cache. If the Secret has changed since, its next event queues it
// again, as it may name another account.
func (r *reconciler) delete(ctx context.Context, s *corev1.Secret) error {
	err := client.Delete(ctx, r.live, s, client.IfUID(s.UID), client.IfVersion(s.ResourceVersion))
	if err = client.IgnoreNotFound(client.IgnoreConflict(err)); err != nil {
		return fmt.Errorf("delete token secret %s: %w", klog.KObj(s), err)
	}
	klog.FromContext(ctx).Info("Deleted the token secret of a deleted service account", "secret", klog.KObj(s))
	return nil
}

// dropReference removes a deleted Secret from its account's list. The account is read from the server, since the cache may
// not show yet that the Secret is in the list.
func (r *reconciler) dropReference(ctx context.Context, key secretKey) error {
	name := kit.Key{Namespace: key.namespace, Name: key.account}
	names := func(s corev1.ObjectReference) bool { return s.Name == key.name }
	if a, ok := r.accounts.Get(name); !ok || !is(a, key.accountUID) {
		return nil
	}
	fresh, err := client.Get[corev1.ServiceAccount](ctx, r.live, name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if !is(fresh, key.accountUID) || !slices.ContainsFunc(fresh.Secrets, names) {
		return nil
	}
	fresh.Secrets = slices.DeleteFunc(fresh.Secrets, names)
	if _, err := client.Update(ctx, r.live, fresh); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("drop secret %s from service account %s: %w", key.name, name, err))
	}
	return nil
}
