package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the files that Write makes, as in a Secret of type kubernetes.io/tls.
const (
	CAFile   = "ca.crt"
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// backdated is how far before now certificates are valid from, for clocks that are behind.
const backdated = time.Hour

// Bundle is a serving certificate with its key, and the authority to trust it by, in PEM form.
type Bundle struct {
	CA, Cert, Key []byte
}

// New makes a bundle for the host names and addresses, valid for life from now on.
func New(hosts []string, now time.Time, life time.Duration) (Bundle, error) {
	if len(hosts) == 0 {
		return Bundle{}, errors.New("a certificate needs at least one host name")
	}
	if life <= 0 {
		return Bundle{}, fmt.Errorf("a certificate cannot be valid for %s", life)
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Bundle{}, fmt.Errorf("make the key of the authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Bundle{}, fmt.Errorf("make the key: %w", err)
	}
	ca := template(hosts[0]+" authority", now, life)
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	leaf := template(hosts[0], now, life)
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, h)
		}
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return Bundle{}, fmt.Errorf("make the authority: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return Bundle{}, fmt.Errorf("make the certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Bundle{}, fmt.Errorf("write the key: %w", err)
	}
	return Bundle{CA: block("CERTIFICATE", caDER), Cert: block("CERTIFICATE", leafDER), Key: block("PRIVATE KEY", keyDER)}, nil
}

func template(name string, now time.Time, life time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		serial = big.NewInt(now.UnixNano())
	}
	const longestName = 64
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name[:min(len(name), longestName)]},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(life), BasicConstraintsValid: true,
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Write stores the bundle in a folder, which is made if it is not there. The key can be read by its owner only.
func (b Bundle) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
		mode os.FileMode
	}{{KeyFile, b.Key, 0o600}, {CertFile, b.Cert, 0o644}, {CAFile, b.CA, 0o644}} {
		path := filepath.Join(dir, f.name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err // one that is there would keep its mode
		}
		if err := os.WriteFile(path, f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}
