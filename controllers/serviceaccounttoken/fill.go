package serviceaccounttoken

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// missing is what a token Secret lacks.
type missing struct{ ca, namespace, token bool }

func (m missing) any() bool { return m.ca || m.namespace || m.token }

// incomplete returns what a Secret lacks. An existing token is not checked; a CA other than the current one is replaced.
func (r *reconciler) incomplete(s *corev1.Secret) missing {
	ca := r.ca()
	return missing{
		ca:        len(ca) > 0 && !bytes.Equal(s.Data[corev1.ServiceAccountRootCAKey], ca),
		namespace: len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0,
		token:     len(s.Data[corev1.ServiceAccountTokenKey]) == 0,
	}
}

// fill adds what is missing to a fresh copy of the Secret. If the cache is behind it does nothing: the next event of the
// Secret queues it again.
func (r *reconciler) fill(ctx context.Context, account *corev1.ServiceAccount, cached *corev1.Secret) error {
	s, err := client.Get[corev1.Secret](ctx, r.live, kit.KeyOf(cached))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	lacks := r.incomplete(s)
	if s.ResourceVersion != cached.ResourceVersion || !lacks.any() {
		return nil
	}
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	if lacks.ca {
		s.Data[corev1.ServiceAccountRootCAKey] = r.ca()
	}
	if lacks.namespace {
		s.Data[corev1.ServiceAccountNamespaceKey] = []byte(s.Namespace)
	}
	if lacks.token {
		token, err := r.sign(account, s)
		if err != nil {
			return kit.Terminal(fmt.Errorf("sign a token for secret %s: %w", klog.KObj(s), err))
		}
		s.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1.ServiceAccountNameKey, account.Name)
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	_, err = client.Update(ctx, r.live, s)
	if err = client.IgnoreNotFound(client.IgnoreConflict(err)); err != nil {
		return fmt.Errorf("fill token secret %s: %w", klog.KObj(s), err)
	}
	klog.FromContext(ctx).V(2).Info("Filled token secret", "secret", klog.KObj(s), "serviceAccount", account.Name)
	return nil
}
