package serviceaccounttoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"
)

// issuer is the issuer of tokens that are stored in Secrets and do not expire, by which API servers recognise them.
const issuer = "kubernetes/serviceaccount"

// signer makes JSON Web Tokens (RFC 7519) in the compact form of RFC 7515.
type signer struct {
	key       crypto.Signer
	algorithm string
	hash      crypto.Hash
	keyID     string
}

// loadSigner reads an RSA or ECDSA private key in PEM form.
func loadSigner(path string) (*signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	raw, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it must hold an RSA or ECDSA private key in PEM form", path, err)
	}
	s := &signer{algorithm: "RS256", hash: crypto.SHA256}
	switch key := raw.(type) {
	case *rsa.PrivateKey:
		s.key = key
	case *ecdsa.PrivateKey:
		s.key = key
		switch bits := key.Curve.Params().BitSize; bits {
		case 256:
			s.algorithm = "ES256"
		case 384:
			s.algorithm, s.hash = "ES384", crypto.SHA384
		case 521:
			s.algorithm, s.hash = "ES512", crypto.SHA512
		default:
			return nil, fmt.Errorf("%s: an ECDSA key must be on curve P-256, P-384 or P-521, not one of %d bits", path, bits)
		}
	default:
		return nil, fmt.Errorf("%s: holds a %T; it must be an RSA or ECDSA private key", path, raw)
	}
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// API servers identify keys by the hash of the public key.
	sum := sha256.Sum256(der)
	s.keyID = base64.RawURLEncoding.EncodeToString(sum[:])
	return s, nil
}

type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
}

type claims struct {
	Issuer     string `json:"iss"`
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace"`
	Secret     string `json:"kubernetes.io/serviceaccount/secret.name"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid"`
	Subject    string `json:"sub"`
}

// sign returns the token of an account for a Secret.
func (s *signer) sign(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	h, err := json.Marshal(header{s.algorithm, s.keyID})
	if err != nil {
		return "", err
	}
	c, err := json.Marshal(claims{
		Issuer: issuer, Namespace: account.Namespace, Secret: secret.Name, Account: account.Name, AccountUID: string(account.UID),
		Subject: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	digest := s.hash.New()
	digest.Write([]byte(text))
	signature, err := s.signature(digest.Sum(nil))
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// signature signs a digest; for ECDSA in the fixed-width form of RFC 7518, section 3.4.
func (s *signer) signature(digest []byte) ([]byte, error) {
	key, ok := s.key.(*ecdsa.PrivateKey)
	if !ok {
		return s.key.Sign(rand.Reader, digest, s.hash)
	}
	x, y, err := ecdsa.Sign(rand.Reader, key, digest)
	if err != nil {
		return nil, err
	}
	width := (key.Curve.Params().BitSize + 7) / 8
	out := make([]byte, 2*width)
	x.FillBytes(out[:width])
	y.FillBytes(out[width:])
	return out, nil
}
