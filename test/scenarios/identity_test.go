package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery/hack/localcluster/cluster"
)

// TestIdentities checks what every namespace is given: a service account, tokens on request, and the CA.
func TestIdentities(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{})
	ca := must(os.ReadFile(e.PKI().CACert))(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "ca.crt"), ca)
	e.manage(t, cluster.Orrery, "--root-ca-file="+file)
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	ns := e.namespace(t, "identities")

	t.Run("a deleted default service account comes back", func(t *testing.T) {
		accounts := e.Client().CoreV1().ServiceAccounts(ns)
		old := must(accounts.Get(t.Context(), "default", metav1.GetOptions{}))(t)
		e.kubectl(t, "-n", ns, "delete", "serviceaccount", "default")
		eventually(t, "a new one", func() error {
			now, err := accounts.Get(t.Context(), "default", metav1.GetOptions{})
			if err == nil && now.UID == old.UID {
				err = errors.New("it is the old one")
			}
			return err
		})
	})
	t.Run("a token Secret is filled in, works, and goes with its account", func(t *testing.T) { tokenSecret(t, e, ns, ca) })
	t.Run("a token Secret of nobody is deleted", func(t *testing.T) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "nobody", Annotations: map[string]string{corev1.ServiceAccountNameKey: "nobody"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		must(e.Client().CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{}))(t)
		e.gone(t, "secrets", ns, "nobody")
	})
	t.Run("a changed CA ConfigMap is put right", func(t *testing.T) {
		e.kubectl(t, "-n", ns, "patch", "configmap", "kube-root-ca.crt", "--type=merge", "-p", `{"data":{"ca.crt":"nonsense"}}`)
		eventually(t, "the CA again", func() error { return e.published(t, ns, ca) })
		e.kubectl(t, "-n", ns, "delete", "configmap", "kube-root-ca.crt")
		eventually(t, "the CA again", func() error { return e.published(t, ns, ca) })
	})
	t.Run("a rewritten CA file is published everywhere", func(t *testing.T) {
		more := append(bytes.Clone(ca), must(os.ReadFile(e.PKI().FrontProxyCACert))(t)...)
		replaceFile(t, file, more)
		for _, name := range []string{ns, "default", "kube-system"} {
			eventually(t, "the new bundle in "+name, func() error { return e.published(t, name, more) })
		}
	})
	t.Run("a broken CA file is not published", func(t *testing.T) {
		e.expect(`ca\.crt`)
		replaceFile(t, file, nil)
		late := e.namespace(t, "late")
		eventually(t, "the last good bundle", func() error {
			return e.published(t, late, append(bytes.Clone(ca), must(os.ReadFile(e.PKI().FrontProxyCACert))(t)...))
		})
	})
}

// replaceFile replaces a file by a new one, as tools that renew certificates do.
func replaceFile(t *testing.T, path string, content []byte) {
	t.Helper()
	next := writeFile(t, path+".next", content)
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func (e *env) published(t *testing.T, namespace string, want []byte) error {
	cm, err := e.Client().CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := cm.Data["ca.crt"]; got != string(want) {
		return fmt.Errorf("%d bytes are published, want %d", len(got), len(want))
	}
	return nil
}

func tokenSecret(t *testing.T, e *env, ns string, ca []byte) {
	e.kubectl(t, "-n", ns, "create", "serviceaccount", "robot")
	e.apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: robot-token, namespace: identities, annotations: {kubernetes.io/service-account.name: robot}}
type: kubernetes.io/service-account-token
`)
	var secret *corev1.Secret
	eventually(t, "the Secret is filled in", func() (err error) {
		secret, err = e.Client().CoreV1().Secrets(ns).Get(t.Context(), "robot-token", metav1.GetOptions{})
		if err == nil && len(secret.Data["token"]) == 0 {
			err = errors.New("it has no token")
		}
		return err
	})
	account := must(e.Client().CoreV1().ServiceAccounts(ns).Get(t.Context(), "robot", metav1.GetOptions{}))(t)
	if got := secret.Annotations[corev1.ServiceAccountUIDKey]; got != string(account.UID) {
		t.Errorf("uid annotation is %q, want %q", got, account.UID)
	}
	if string(secret.Data["namespace"]) != ns || !bytes.Equal(secret.Data["ca.crt"], ca) {
		t.Errorf("namespace %q and a CA of %d bytes, want %q and %d", secret.Data["namespace"], len(secret.Data["ca.crt"]), ns, len(ca))
	}
	config := rest.AnonymousClientConfig(e.RESTConfig())
	config.BearerToken = string(secret.Data["token"])
	review := must(must(kubernetes.NewForConfig(config))(t).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))(t)
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:identities:robot"; got != want {
		t.Errorf("the token is %q's, want %q's", got, want)
	}
	e.kubectl(t, "-n", ns, "delete", "serviceaccount", "robot")
	eventually(t, "the Secret goes with the account", func() error {
		_, err := e.Client().CoreV1().Secrets(ns).Get(t.Context(), "robot-token", metav1.GetOptions{})
		if err == nil {
			return errors.New("it is still there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
}
