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

// backdated is how long before now certificates begin to be valid, to allow for clocks that are behind.
const backdated = time.Hour

// Bundle is a serving certificate with its key, and the authority that issued it, in PEM form.
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
	caKey, err := newKey()
	if err != nil {
		return Bundle{}, err
	}
	key, err := newKey()
	if err != nil {
		return Bundle{}, err
	}
	ca, leaf := authority(hosts[0]+" authority", now, life), template(hosts[0], now, life)
	serve(leaf, hosts)
	var b Bundle
	if b.CA, err = sign(ca, caKey, ca, caKey); err != nil {
		return Bundle{}, fmt.Errorf("make the authority: %w", err)
	}
	if b.Cert, err = sign(leaf, key, ca, caKey); err != nil {
		return Bundle{}, fmt.Errorf("make the certificate: %w", err)
	}
	b.Key, err = encode(key)
	return b, err
}

// NewSingle makes a serving certificate that is its own authority: a client trusts it by the certificate itself. name is
// that of its subject, which should differ from one certificate to the next.
func NewSingle(name string, hosts []string, now time.Time, life time.Duration) (cert, key []byte, err error) {
	private, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	single := authority(name, now, life)
	serve(single, hosts)
	if cert, err = sign(single, private, single, private); err != nil {
		return nil, nil, fmt.Errorf("make the certificate: %w", err)
	}
	key, err = encode(private)
	return cert, key, err
}

// newKey makes an elliptic key: making an RSA key takes a good part of a daemon's start.
func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func encode(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return block("PRIVATE KEY", der), nil
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

func authority(name string, now time.Time, life time.Duration) *x509.Certificate {
	ca := template(name, now, life)
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	return ca
}

// serve makes a certificate one for servers of these names and addresses.
func serve(cert *x509.Certificate, hosts []string) {
	cert.KeyUsage |= x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, h)
		}
	}
}

// sign returns the certificate of a key, in PEM form.
func sign(cert *x509.Certificate, key *ecdsa.PrivateKey, by *x509.Certificate, byKey *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, cert, by, &key.PublicKey, byKey)
	if err != nil {
		return nil, err
	}
	return block("CERTIFICATE", der), nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Write stores the bundle in a folder, which is created if necessary. The key is readable by its owner only.
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
			return err // an existing file would keep its mode
		}
		if err := os.WriteFile(path, f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}
