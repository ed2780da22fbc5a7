package rootcapublisher

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/kittest"
	"orrery/options"
)

// bundle returns a CA bundle of one certificate, in PEM form.
func bundle(t *testing.T, serial int64) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func configMap(namespace, data string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configMapName, Annotations: map[string]string{descriptionAnnotation: description}}}
	c.Data = map[string]string{"ca.crt": data}
	return c
}

// run starts the controller with a bundle from the kubeconfig, or from a file if its path is given.
func run(t *testing.T, api *kittest.API, ca []byte, path string) {
	t.Helper()
	d := Descriptor(&options.Shared{RootCAFile: path})
	cc := api.Context(d.Name, d.RBAC...)
	cc.RootCA = ca
	api.RunIn(t, cc, d.Init)
}

func bundleIn(t *testing.T, api *kittest.API, namespace string) string {
	t.Helper()
	c := configMap(namespace, "")
	if !api.Get(t, c) {
		return ""
	}
	return c.Data["ca.crt"]
}

func TestEachActiveNamespaceGetsTheBundle(t *testing.T) {
	ca := bundle(t, 1)
	synctest.Test(t, func(t *testing.T) {
		going := namespace("going")
		api := kittest.New(t, namespace("shop"), going, configMap("kept", string(ca)), namespace("kept"))
		api.Delete(t, going)
		run(t, api, ca, "")
		api.Settle()
		api.Expect(t, "create v1/configmaps shop/kube-root-ca.crt")
		api.Create(t, namespace("later"))
		api.Settle()
		api.Expect(t, "create v1/configmaps later/kube-root-ca.crt")

		changed := configMap("shop", "EVIL")
		api.Update(t, changed)
		api.Settle()
		api.Expect(t, "update v1/configmaps shop/kube-root-ca.crt")
		api.Remove(t, changed)
		api.Settle()
		api.Expect(t, "create v1/configmaps shop/kube-root-ca.crt")
		if got := bundleIn(t, api, "shop"); got != string(ca) {
			t.Errorf("published %q", got)
		}
		other := configMap("shop", "x")
		other.Name = "mine"
		api.Create(t, other)
		api.Remove(t, other)
		api.Settle()
		api.Expect(t)
	})
}

// TestWithoutACATheConfigMapIsThere: kubelets mount it into every pod, and start none without it.
func TestWithoutACATheConfigMapIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, namespace("shop"), configMap("kept", ""), namespace("kept"), configMap("other", "CA"), namespace("other"))
		run(t, api, nil, "")
		api.Settle()
		api.Expect(t, "create v1/configmaps shop/kube-root-ca.crt", "update v1/configmaps other/kube-root-ca.crt")
		c := configMap("shop", "")
		if bundle, ok := c.Data["ca.crt"]; !api.Get(t, c) || !ok || bundle != "" {
			t.Errorf("published %q, want an empty ca.crt", c.Data)
		}
	})
}

// TestNothingIsPublishedWhereANamespaceGoes: there was a bug by which creates were retried, and rejected, again and again.
func TestNothingIsPublishedWhereANamespaceGoes(t *testing.T) {
	ca := bundle(t, 1)
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		run(t, api, ca, "")
		api.Settle()
		creates := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "configmaps" {
				if creates++; creates == 1 { // the namespace goes between the controller's look and its write
					api.Delete(t, namespace("brief"))
				} else {
					return kittest.Refuse(404, "namespace not found")
				}
			}
			return nil
		})
		api.Create(t, namespace("brief"))
		api.Settle()
		api.Create(t, namespace("briefer"))
		api.Pass(10 * time.Minute)
		if creates != 2 {
			t.Errorf("%d creates, want one for each namespace and no more", creates)
		}
		api.Expect(t)
	})
}

func TestTheFileIsReadAgain(t *testing.T) {
	one, two := bundle(t, 1), bundle(t, 2)
	path := filepath.Join(t.TempDir(), "ca.crt")
	write := func(data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write(one)
		api := kittest.New(t, namespace("a"), namespace("b"))
		run(t, api, []byte("of the kubeconfig"), path)
		api.Settle()
		api.Expect(t, "create v1/configmaps a/kube-root-ca.crt", "create v1/configmaps b/kube-root-ca.crt")
		if bundleIn(t, api, "a") != string(one) {
			t.Error("the file comes before the kubeconfig")
		}
		for _, broken := range []string{"", "no certificate"} {
			write([]byte(broken))
			api.Pass(5 * time.Minute)
			api.Expect(t)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		changed := configMap("a", "EVIL")
		api.Update(t, changed)
		api.Pass(5 * time.Minute)
		api.Expect(t, "update v1/configmaps a/kube-root-ca.crt")
		if bundleIn(t, api, "a") != string(one) {
			t.Error("the old bundle has to stay while the file is broken or missing")
		}
		write(two)
		api.Pass(31 * time.Second)
		api.Settle()
		api.Expect(t, "update v1/configmaps a/kube-root-ca.crt", "update v1/configmaps b/kube-root-ca.crt")
		if bundleIn(t, api, "a") != string(two) || bundleIn(t, api, "b") != string(two) {
			t.Error("the new bundle has to be in every namespace")
		}
	})
}

func TestAFileWithoutACertificateIsRefusedAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Descriptor(&options.Shared{RootCAFile: path}).Init(kit.ControllerContext{})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "--root-ca-file") {
		t.Errorf("error = %v, want one that names the flag and the file", err)
	}
}
