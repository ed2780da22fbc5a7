package serviceaccounttoken

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/kittest"
	"orrery/options"
)

func account(name string, secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	for _, s := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s})
	}
	return a
}

// token returns a Secret that asks for the token of an account, without its UID unless one is given.
func token(name, account string, uid ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type: corev1.SecretTypeServiceAccountToken}
	for _, u := range uid {
		s.Annotations[corev1.ServiceAccountUIDKey] = u
	}
	return s
}

func signingKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return writeKey(t, key)
}

// run starts the controller, which has no role of its own: it runs as the process itself.
func run(t *testing.T, api *kittest.API, s options.Shared) *kittest.Running {
	t.Helper()
	s.ServiceAccountTokenSyncs = 5
	d := Descriptor(&s)
	cc := api.Context(d.Name)
	cc.RootCA = []byte("CA of the kubeconfig")
	return api.RunIn(t, cc, d.Init)
}

func TestATokenSecretIsFilled(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		a := account("till")
		opaque := token("opaque", "till")
		opaque.Type = corev1.SecretTypeOpaque
		nameless := token("nameless", "")
		api := kittest.New(t, a, opaque, nameless, token("before", "till"))
		run(t, api, options.Shared{ServiceAccountKeyFile: key})
		api.Settle()
		api.Create(t, token("after", "till"))
		api.Settle()
		api.Expect(t, "update v1/secrets shop/before", "update v1/secrets shop/after")
		s := token("after", "")
		api.Get(t, s)
		if len(s.Data["token"]) == 0 || string(s.Data["ca.crt"]) != "CA of the kubeconfig" || string(s.Data["namespace"]) != "shop" {
			t.Errorf("data = %q", s.Data)
		}
		if s.Annotations[corev1.ServiceAccountUIDKey] != string(a.UID) || s.Annotations[corev1.ServiceAccountNameKey] != "till" {
			t.Errorf("annotations = %v, want the name and UID %s of the account", s.Annotations, a.UID)
		}
		old := string(s.Data["token"])
		s.Data["ca.crt"], s.Data["namespace"] = []byte("other"), nil
		api.Update(t, s)
		api.Settle()
		api.Get(t, s)
		if string(s.Data["token"]) != old || string(s.Data["ca.crt"]) != "CA of the kubeconfig" || string(s.Data["namespace"]) != "shop" {
			t.Errorf("data = %q, want the CA and the namespace mended and the token kept", s.Data)
		}
	})
}

func TestSecretsGoWithTheirAccount(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		a := account("till")
		api := kittest.New(t, a, account("door"), token("one", "till"), token("two", "till"), token("other", "door"))
		run(t, api, options.Shared{ServiceAccountKeyFile: key})
		api.Settle()
		api.TakeWrites()
		api.Remove(t, a)
		api.Settle()
		api.Expect(t, "delete v1/secrets shop/one", "delete v1/secrets shop/two")
	})
}

func TestASecretOfNobodyIsDeleted(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, account("till"), token("missing", "nobody"), token("stale", "till", "uid-of-an-earlier-one"))
		run(t, api, options.Shared{ServiceAccountKeyFile: key})
		api.Settle()
		api.Expect(t, "delete v1/secrets shop/missing", "delete v1/secrets shop/stale")
	})
}

// TestTheServerIsAskedBeforeASecretIsDeleted: the caches of accounts and Secrets are not synchronised.
func TestTheServerIsAskedBeforeASecretIsDeleted(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		run(t, api, options.Shared{ServiceAccountKeyFile: key})
		api.Settle()
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), true)
		api.Create(t, account("till"))
		api.Create(t, token("early", "till"))
		api.Settle()
		api.Expect(t, "update v1/secrets shop/early")
	})
}

func TestADeletedSecretLeavesTheAccountsList(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		s := token("one", "till")
		api := kittest.New(t, account("till", "one", "two"), s)
		run(t, api, options.Shared{ServiceAccountKeyFile: key})
		api.Settle()
		api.TakeWrites()
		conflicts := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" && conflicts < 3 {
				conflicts++
				return kittest.Refuse(409, "changed meanwhile")
			}
			return nil
		})
		api.Remove(t, s)
		api.Settle()
		api.Expect(t, "update v1/serviceaccounts shop/till")
		a := account("till")
		api.Get(t, a)
		if len(a.Secrets) != 1 || a.Secrets[0].Name != "two" {
			t.Errorf("secrets = %v, want two alone", a.Secrets)
		}
	})
}

// TestAReferenceThatTheCacheDoesNotShowIsDropped: the Secret was added to the account just before it was deleted.
func TestAReferenceThatTheCacheDoesNotShowIsDropped(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		a, s := account("till"), token("one", "till")
		api := kittest.New(t, a, s)
		run(t, api, options.Shared{ServiceAccountKeyFile: key})
		api.Settle()
		api.TakeWrites()
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), true)
		a.Secrets = []corev1.ObjectReference{{Name: "one"}, {Name: "pull"}}
		api.Update(t, a)
		api.Remove(t, s)
		api.Settle()
		api.Expect(t, "update v1/serviceaccounts shop/till")
		if api.Get(t, a); len(a.Secrets) != 1 || a.Secrets[0].Name != "pull" {
			t.Errorf("secrets = %v, want pull alone", a.Secrets)
		}
	})
}

// TestACompleteSecretWithoutUIDGoesWithItsAccount: it needed no filling in, and so was never given the account's UID. If the
// account is created again, as the one named default always is, the Secret belongs to the new one only if it is as new.
func TestACompleteSecretWithoutUIDGoesWithItsAccount(t *testing.T) {
	for _, c := range []struct {
		name  string
		again bool
		after time.Duration
		kept  bool
	}{
		{"account gone", false, 0, false},
		{"account made again", true, time.Minute, false},
		{"account made again, and before the secret", true, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := signingKey(t)
			synctest.Test(t, func(t *testing.T) {
				a, s := account("till"), token("restored", "till")
				s.Data = map[string][]byte{"token": []byte("t"), "ca.crt": []byte("CA of the kubeconfig"), "namespace": []byte("shop")}
				api := kittest.New(t, a, s)
				run(t, api, options.Shared{ServiceAccountKeyFile: key})
				api.Settle()
				api.Expect(t)
				time.Sleep(c.after)
				accounts := corev1.SchemeGroupVersion.WithKind("ServiceAccount")
				api.FreezeWatch(accounts, true) // until it is made again
				api.Remove(t, a)
				if c.again {
					api.Create(t, account("till"))
				}
				api.FreezeWatch(accounts, false)
				api.Settle()
				if kept := api.Get(t, s); kept != c.kept {
					t.Errorf("the Secret is there: %t; want %t", kept, c.kept)
				}
			})
		})
	}
}

// TestASecretThatNamesAnotherAccountByNow: the key for the account that it named before must not lead to its deletion.
func TestASecretThatNamesAnotherAccountByNow(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		a := account("old")
		api := kittest.New(t, a, account("new"), token("s", "old"))
		run(t, api, options.Shared{ServiceAccountKeyFile: key})
		api.Settle()
		s := token("s", "")
		api.Get(t, s)
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Secret"), true)
		s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "new"}
		api.Update(t, s)
		api.Remove(t, a)
		api.Settle()
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Secret"), false)
		api.Settle()
		if !api.Get(t, s) || s.Annotations[corev1.ServiceAccountNameKey] != "new" {
			t.Error("the Secret was deleted for an account that it does not name any more")
		}
	})
}

func TestANewCAReachesAllSecrets(t *testing.T) {
	key := signingKey(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ca.crt")
		write := func(data string) {
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(oneCA)
		api := kittest.New(t, account("till"), token("s", "till"))
		run(t, api, options.Shared{ServiceAccountKeyFile: key, RootCAFile: path})
		api.Settle()
		api.Expect(t, "update v1/secrets shop/s")
		write("broken")
		api.Pass(5 * time.Minute)
		api.Expect(t)
		write(oneCA + "\n")
		api.Pass(31 * time.Second)
		api.Settle()
		api.Expect(t, "update v1/secrets shop/s")
		s := token("s", "")
		if api.Get(t, s); string(s.Data["ca.crt"]) != oneCA+"\n" {
			t.Errorf("CA = %q", s.Data["ca.crt"])
		}
	})
}

func TestWithoutAKeyNothingRuns(t *testing.T) {
	if on, err := Descriptor(&options.Shared{}).Init(kit.ControllerContext{}); on || err != nil {
		t.Errorf("started %t, %v; want neither", on, err)
	}
}

// oneCA is a CA certificate. It does not matter when it expires: only its form is checked.
const oneCA = `-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIUJb1Pmo5QOQBhvLOhjEkxOq9i+AMwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTI5MTcwOTA0WhgPMjEyNjExMDUxNzA5MDRa
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEbyxc5icV
IbmQSRQauVyzY5HLmxTZn4YqJ1id6n3ALzbRxNXh49ISDuyIwdG0QMYk5S1x6UZj
0yQYV+6JVjEAMqNTMFEwHQYDVR0OBBYEFHjyUcZqxzU1dxvcQ1SxZZsYu/ntMB8G
A1UdIwQYMBaAFHjyUcZqxzU1dxvcQ1SxZZsYu/ntMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSQAwRgIhAMeMHM4L3zbe++CISJyer/8T5MyNsYlgm6BtfseS
fUEOAiEAr0D04MGkf9uzul2K3F+RGOjJFGWyW5zm008Lva9qKjk=
-----END CERTIFICATE-----
`
