package serving

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"

	certutil "k8s.io/client-go/util/cert"
)

// caBundle is a set of certificate authorities for client certificates. It may be
// empty for a while, when it is to come from the cluster and has not come yet; no
// certificate is trusted then.
type caBundle struct {
	source string // the flag, or the key of the cluster's settings; for messages
	file   string // empty if the content comes from elsewhere

	current atomic.Pointer[caContent]
}

type caContent struct {
	raw   []byte
	certs []*x509.Certificate
	pool  *x509.CertPool
}

func (b *caBundle) label() string { return b.source + " " + b.file }

// load reads the file again. On an error the bundle in use stays.
func (b *caBundle) load() (changed bool, err error) {
	if b.file == "" {
		return false, nil
	}
	raw, err := os.ReadFile(b.file)
	if err != nil {
		return false, fmt.Errorf("read certificate authorities of %s: %w", b.source, err)
	}
	return b.set(raw)
}

// set puts a bundle in PEM form to use.
func (b *caBundle) set(raw []byte) (changed bool, err error) {
	if old := b.current.Load(); old != nil && bytes.Equal(raw, old.raw) {
		return false, nil
	}
	certs, err := certutil.ParseCertsPEM(raw)
	if err != nil {
		return false, fmt.Errorf("parse certificate authorities of %s in %q: %w", b.source, b.file, err)
	}
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	b.current.Store(&caContent{raw: raw, certs: certs, pool: pool})
	return true, nil
}

// verifyOptions is asked by the authenticators at every request; false means that nothing can be verified yet.
func (b *caBundle) verifyOptions() (x509.VerifyOptions, bool) {
	content := b.current.Load()
	if content == nil {
		return x509.VerifyOptions{}, false
	}
	return x509.VerifyOptions{Roots: content.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

func (b *caBundle) certificates() []*x509.Certificate {
	if content := b.current.Load(); content != nil {
		return content.certs
	}
	return nil
}
