package pki

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func writeAll(t *testing.T) Files {
	t.Helper()
	files, err := Write(Request{
		Dir: filepath.Join(t.TempDir(), "pki"), Server: "https://127.0.0.1:6443",
		ServerHosts: []string{"127.0.0.1", "10.96.0.1", "kubernetes.default.svc"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseCert(t, text)
}

func parseCert(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no PEM block in %q", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(t *testing.T, cert *x509.Certificate, caPath, host string, usage x509.ExtKeyUsage) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(readCert(t, caPath))
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestServingCertificateIsValidForEveryHost(t *testing.T) {
	files := writeAll(t)
	cert := readCert(t, files.APIServerCert)
	for _, host := range []string{"127.0.0.1", "10.96.0.1", "kubernetes.default.svc"} {
		if err := verify(t, cert, files.CACert, host, x509.ExtKeyUsageServerAuth); err != nil {
			t.Errorf("host %s: %v", host, err)
		}
	}
	if err := verify(t, cert, files.CACert, "example.com", x509.ExtKeyUsageServerAuth); err == nil {
		t.Error("certificate is valid for a host nobody asked for")
	}
}

func TestFrontProxyHasAnAuthorityOfItsOwn(t *testing.T) {
	files := writeAll(t)
	cert := readCert(t, files.FrontProxyCert)
	if err := verify(t, cert, files.FrontProxyCACert, "", x509.ExtKeyUsageClientAuth); err != nil {
		t.Errorf("under its own authority: %v", err)
	}
	if err := verify(t, cert, files.CACert, "", x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("the cluster's authority accepts the front proxy as an ordinary client")
	}
	if got := cert.Subject.CommonName; got != "front-proxy-client" {
		t.Errorf("common name is %q", got)
	}
}

func TestKubeconfigsCarryTheBootstrapIdentities(t *testing.T) {
	files := writeAll(t)
	for path, want := range map[string]struct {
		user   string
		groups []string
	}{
		files.AdminKubeconfig:             {"kubernetes-admin", []string{"system:masters"}},
		files.SchedulerKubeconfig:         {"system:kube-scheduler", nil},
		files.ControllerManagerKubeconfig: {"system:kube-controller-manager", nil},
	} {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if config.Host != "https://127.0.0.1:6443" {
			t.Errorf("%s: server is %s", path, config.Host)
		}
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			t.Errorf("%s: key and certificate: %v", path, err)
		}
		cert := parseCert(t, config.CertData)
		if cert.Subject.CommonName != want.user || !slices.Equal(cert.Subject.Organization, want.groups) {
			t.Errorf("%s: subject is %v, want %s in groups %v", path, cert.Subject, want.user, want.groups)
		}
		if err := verify(t, cert, files.CACert, "", x509.ExtKeyUsageClientAuth); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestServiceAccountKeysAreAPair(t *testing.T) {
	files := writeAll(t)
	private, err := os.ReadFile(files.ServiceAccountKey)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(files.ServiceAccountPub)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(public)
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !key.PublicKey.Equal(parsed.(*rsa.PublicKey)) {
		t.Error("the public key does not belong to the private one")
	}
}

func TestKeysAreReadableByTheirOwnerAlone(t *testing.T) {
	files := writeAll(t)
	for _, path := range []string{
		files.CAKey, files.APIServerKey, files.FrontProxyKey, files.ServiceAccountKey,
		files.ControllerManagerKey, files.AdminKubeconfig, files.SchedulerKubeconfig, files.ControllerManagerKubeconfig,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}
