package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const rootCA = "kube-root-ca.crt"

// accountProgram creates and deletes ServiceAccounts, their token Secrets, and the ConfigMap with the CA. No step changes two
// things that depend on each other, or creates what a controller is about to create.
func accountProgram(r *rand.Rand) program {
	var p program
	secrets := 0
	for range 9 + r.IntN(6) {
		one := accountStep(r, secrets)
		if chance(r, 2) {
			one = secretStep(r, &secrets)
		}
		p.steps = append(p.steps, together(one, rootCAStep(r)))
	}
	p.steps = append(p.steps, finalizersDropped("secrets", "serviceaccounts"))
	return p
}

func accountStep(r *rand.Rand, secrets int) step {
	name := pick(r, "default", "default", "a", "b")
	switch r.IntN(6) {
	case 0, 1:
		return deleted("serviceaccounts", name, pick(r, "", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground))
	case 2:
		return recreated("serviceaccounts", account(r, pick(r, "a", "b"), secrets), "")
	case 3, 4:
		return created("serviceaccounts", account(r, name, secrets))
	}
	return patched("serviceaccounts", name, "%s", pick(r, `{"secrets":[{"name":"t0"},{"name":"t1"}]}`, `{"secrets":null}`, `{"metadata":{"annotations":{"note":"x"}}}`,
		`{"automountServiceAccountToken":false}`, `{"imagePullSecrets":[{"name":"t0"}]}`, `{"metadata":{"finalizers":["parity.example/stay"]}}`, `{"metadata":{"finalizers":null}}`))
}

func secretStep(r *rand.Rand, secrets *int) step {
	secret := fmt.Sprintf("t%d", r.IntN(*secrets+1))
	switch r.IntN(5) {
	case 0, 1:
		*secrets++
		return newToken(r, fmt.Sprintf("t%d", *secrets-1), pick(r, "default", "default", "a", "b"))
	case 2:
		return deleted("secrets", secret, "")
	}
	return patched("secrets", secret, "%s", pick(r, `{"data":{"token":null}}`, `{"data":{"namespace":null,"ca.crt":null}}`, `{"data":null}`, `{"data":{"ca.crt":"b2RkCg==","extra":"b2RkCg=="}}`,
		`{"metadata":{"annotations":{"kubernetes.io/service-account.uid":null}}}`, `{"metadata":{"annotations":{"kubernetes.io/service-account.uid":"wrong"}}}`,
		`{"metadata":{"annotations":{"kubernetes.io/service-account.name":"b"}}}`, `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"b","kubernetes.io/service-account.uid":null}}}`,
		`{"metadata":{"labels":{"kubernetes.io/legacy-token-last-used":"2020-01-01"}}}`))
}

func rootCAStep(r *rand.Rand) step {
	if chance(r, 4) {
		return deleted("configmaps", rootCA, pick(r, "", metav1.DeletePropagationForeground))
	}
	return patched("configmaps", rootCA, "%s", pick(r, `{"data":{"ca.crt":"odd"}}`, `{"data":{"more":"x"}}`, `{"data":null}`, `{"binaryData":{"bytes":"b2RkCg=="}}`,
		`{"metadata":{"annotations":{"kubernetes.io/description":null}}}`, `{"metadata":{"annotations":{"kubernetes.io/description":"mine","note":"x"}}}`,
		`{"metadata":{"labels":{"mine":"yes"}}}`, `{"data":{"ca.crt":null},"metadata":{"annotations":null}}`))
}

func account(r *rand.Rand, name string, secrets int) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if chance(r, 3) {
		a.Secrets = []corev1.ObjectReference{{Name: fmt.Sprintf("t%d", r.IntN(secrets+1))}, {Name: "other"}}
	}
	if chance(r, 4) {
		a.AutomountServiceAccountToken = new(false)
	}
	return a
}

// newToken is the step that creates a token Secret, which may be complete, or name an account that is not there.
func newToken(r *rand.Rand, name, account string) step {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	switch r.IntN(8) {
	case 0:
		secret.Annotations[corev1.ServiceAccountNameKey] = "missing"
	case 1:
		secret.Annotations[corev1.ServiceAccountUIDKey] = "wrong"
	case 2:
		secret.Data = map[string][]byte{"token": []byte("mine"), "namespace": []byte("mine"), "ca.crt": []byte("mine")}
	case 3:
		secret.Data = map[string][]byte{"extra": []byte("mine"), "namespace": []byte("mine")}
	case 4:
		secret.Finalizers = []string{stays}
	case 5:
		secret.Type = corev1.SecretTypeOpaque
	case 6:
		return tokenOfUID(secret)
	}
	return created("secrets", secret)
}

// tokenOfUID is the step that creates a token Secret which names the UID of its account, too.
func tokenOfUID(secret *corev1.Secret) step {
	return step{text: "create in secrets with the account's UID " + toJSON(secret), do: func(ctx context.Context, s *subject) error {
		owner, err := s.client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, secret.Annotations[corev1.ServiceAccountNameKey], metav1.GetOptions{})
		if err != nil {
			return err
		}
		own := secret.DeepCopy()
		own.Annotations[corev1.ServiceAccountUIDKey] = string(owner.UID)
		return s.create(ctx, "secrets", own)
	}}
}
