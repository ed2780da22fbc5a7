package serviceaccounttoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
)

func writeKey(t *testing.T, key any) string {
	t.Helper()
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokensVerifyWithThePublicKey(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		algorithm string
		key       crypto.Signer
		verify    func(digest, signature []byte) bool
	}{
		{"RS256", rsaKey, func(d, s []byte) bool {
			return rsa.VerifyPKCS1v15(&rsaKey.PublicKey, crypto.SHA256, d, s) == nil
		}},
		{"ES256", ecKey, func(d, s []byte) bool {
			return len(s) == 64 && ecdsa.Verify(&ecKey.PublicKey, d, new(big.Int).SetBytes(s[:32]), new(big.Int).SetBytes(s[32:]))
		}},
	} {
		t.Run(tc.algorithm, func(t *testing.T) {
			s, err := loadSigner(writeKey(t, tc.key))
			if err != nil {
				t.Fatal(err)
			}
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till", UID: "u1"}}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till-token"}}
			token, err := s.sign(account, secret)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(token, ".")
			if len(parts) != 3 {
				t.Fatalf("token has %d parts, want 3", len(parts))
			}
			digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
			signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
			if !tc.verify(digest[:], signature) {
				t.Error("the signature does not verify")
			}
			payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
			var got map[string]string
			if err := json.Unmarshal(payload, &got); err != nil {
				t.Fatal(err)
			}
			if got["sub"] != "system:serviceaccount:shop:till" || got["iss"] != issuer ||
				got["kubernetes.io/serviceaccount/secret.name"] != "till-token" || got["kubernetes.io/serviceaccount/service-account.uid"] != "u1" {
				t.Errorf("claims = %v", got)
			}
		})
	}
}

func TestABadKeyIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSigner(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error = %v, want one that names %s", err, path)
	}
}
