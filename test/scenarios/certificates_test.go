package scenarios

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pair is a certificate with its key, in files and as PEM.
type pair struct {
	certFile, keyFile string
	cert, key         []byte
}

func (p pair) tls(t *testing.T) tls.Certificate {
	t.Helper()
	return must(tls.X509KeyPair(p.cert, p.key))(t)
}

// issue signs a certificate with the cluster's authority: for a user, and for a server on this machine.
func (e *env) issue(t *testing.T, user string, groups ...string) pair {
	t.Helper()
	authority := must(tls.LoadX509KeyPair(e.PKI().CACert, e.PKI().CAKey))(t)
	parent := must(x509.ParseCertificate(authority.Certificate[0]))(t)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: must(rand.Int(rand.Reader, big.NewInt(1<<62)))(t),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, authority.PrivateKey))(t)
	keyDER := must(x509.MarshalPKCS8PrivateKey(key))(t)
	dir := t.TempDir()
	p := pair{
		certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key"),
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	writeFile(t, p.certFile, p.cert)
	writeFile(t, p.keyFile, p.key)
	return p
}

// kubeconfig writes a changed copy of a kubeconfig file and returns its path.
func kubeconfig(t *testing.T, from string, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) string {
	t.Helper()
	config := must(clientcmd.LoadFromFile(from))(t)
	current := config.Contexts[config.CurrentContext]
	change(config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo])
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// throughServer returns a copy of the controller manager's kubeconfig with another server.
func (e *env) throughServer(t *testing.T, server string) string {
	t.Helper()
	return kubeconfig(t, e.ControllerManagerKubeconfig(), func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = server })
}

func writeFile(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
