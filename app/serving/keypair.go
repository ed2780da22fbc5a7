package serving

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"orrery/options/serving"
)

// pairName is the base name of the files a generated certificate is kept in.
const pairName = "kube-controller-manager"

// keyPair is one serving certificate with its key, which may come from files that change.
type keyPair struct {
	certFlag, keyFlag string // for messages
	certFile, keyFile string // empty for a pair that lives in memory
	// names are the host names the pair was given for; without any, those in the certificate count.
	names []string

	// cert and key are the bytes last loaded; only load uses them, and only one goroutine at a time calls it.
	cert, key []byte
	current   atomic.Pointer[tls.Certificate]
}

// label says in messages what is being loaded.
func (p *keyPair) label() string {
	if p.certFlag == p.keyFlag {
		return fmt.Sprintf("%s %s,%s", p.certFlag, p.certFile, p.keyFile)
	}
	return fmt.Sprintf("%s %s and %s %s", p.certFlag, p.certFile, p.keyFlag, p.keyFile)
}

// load reads the files again. On an error the pair in use stays.
func (p *keyPair) load() (changed bool, err error) {
	if p.certFile == "" {
		return false, nil
	}
	cert, err := os.ReadFile(p.certFile)
	if err != nil {
		return false, fmt.Errorf("read certificate of %s: %w", p.certFlag, err)
	}
	key, err := os.ReadFile(p.keyFile)
	if err != nil {
		return false, fmt.Errorf("read private key of %s: %w", p.keyFlag, err)
	}
	return p.set(cert, key)
}

// set puts a pair in PEM form to use, after looking at each half, so that the error names the one at fault.
func (p *keyPair) set(cert, key []byte) (changed bool, err error) {
	if bytes.Equal(cert, p.cert) && bytes.Equal(key, p.key) {
		return false, nil
	}
	if _, err := certutil.ParseCertsPEM(cert); err != nil {
		return false, fmt.Errorf("parse certificate of %s in %s: %w", p.certFlag, p.certFile, err)
	}
	if _, err := keyutil.ParsePrivateKeyPEM(key); err != nil {
		return false, fmt.Errorf("parse private key of %s in %s: %w", p.keyFlag, p.keyFile, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("match certificate and key of %s: %w", p.label(), err)
	}
	p.cert, p.key = cert, key
	p.current.Store(&pair)
	return true, nil
}

// defaultPair returns the certificate for callers that name no other: the files
// given, else the ones kept in the certificate directory, else a new one.
func defaultPair(o serving.SecureOptions) (*keyPair, error) {
	if o.CertFile != "" || o.KeyFile != "" {
		p := &keyPair{certFlag: "--tls-cert-file", keyFlag: "--tls-private-key-file", certFile: o.CertFile, keyFile: o.KeyFile}
		_, err := p.load()
		return p, err
	}
	p := &keyPair{certFlag: "--cert-dir", keyFlag: "--cert-dir"}
	if o.CertDir != "" {
		p.certFile = filepath.Join(o.CertDir, pairName+".crt")
		p.keyFile = filepath.Join(o.CertDir, pairName+".key")
		found, err := certutil.CanReadCertAndKey(p.certFile, p.keyFile)
		if err != nil {
			return nil, fmt.Errorf("look for a certificate in --cert-dir %s: %w", o.CertDir, err)
		}
		if found {
			_, err := p.load()
			return p, err
		}
	}
	return p, generate(p, o.BindAddress)
}

// generate makes a self-signed certificate for p and, if p has files, writes them.
func generate(p *keyPair, bind net.IP) error {
	ips := []net.IP{net.IPv4(127, 0, 0, 1)}
	if bind != nil && !bind.IsUnspecified() {
		ips = append(ips, bind)
	}
	cert, key, err := selfSigned([]string{"localhost"}, ips, time.Now())
	if err != nil {
		return fmt.Errorf("generate self-signed certificate: %w", err)
	}
	if p.certFile != "" {
		if err := certutil.WriteCert(p.certFile, cert); err != nil {
			return fmt.Errorf("write generated certificate into --cert-dir: %w", err)
		}
		if err := keyutil.WriteKey(p.keyFile, key); err != nil {
			return fmt.Errorf("write generated key into --cert-dir: %w", err)
		}
	}
	klog.V(2).InfoS("Generated a self-signed serving certificate", "file", p.certFile)
	_, err = p.set(cert, key)
	return err
}

// sniPairs loads the certificates that are chosen by host name.
func sniPairs(o serving.SecureOptions) ([]*keyPair, error) {
	var pairs []*keyPair
	for _, sni := range o.SNICerts {
		p := &keyPair{certFlag: "--tls-sni-cert-key", keyFlag: "--tls-sni-cert-key", certFile: sni.CertFile, keyFile: sni.KeyFile, names: sni.Names}
		if _, err := p.load(); err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}
