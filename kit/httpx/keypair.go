package httpx

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync/atomic"
)

// KeyPair is a serving certificate with its key, which can be replaced while a server uses it. One goroutine at a time may
// replace it.
type KeyPair struct {
	cert, key []byte // as last replaced
	current   atomic.Pointer[tls.Certificate]
}

// Load replaces the pair by what the files hold now. On an error, as between the writes of the two files, the pair stays.
func (p *KeyPair) Load(certFile, keyFile string) (changed bool, err error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return false, err
	}
	return p.Set(cert, key)
}

// Set replaces the pair by one in PEM form. On an error the pair stays.
func (p *KeyPair) Set(cert, key []byte) (changed bool, err error) {
	if bytes.Equal(cert, p.cert) && bytes.Equal(key, p.key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, err
	}
	for _, issuer := range pair.Certificate[1:] { // of the chain X509KeyPair parses the first certificate only
		if _, err := x509.ParseCertificate(issuer); err != nil {
			return false, err
		}
	}
	p.cert, p.key = cert, key
	p.current.Store(&pair)
	return true, nil
}

// Current returns the pair in use, or nil if there is none yet.
func (p *KeyPair) Current() *tls.Certificate { return p.current.Load() }
