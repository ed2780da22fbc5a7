package selfsigned

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheCertificateServesItsNamesAndIsTrusted(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b, err := New([]string{"nodepool-webhook.kube-system.svc", "127.0.0.1"}, now, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "certs")
	if err := b.Write(dir); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, KeyFile)
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(dir); err != nil { // over what is there
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("the authority cannot be read: %v", err)
	}
	for name, want := range map[string]struct {
		host string
		at   time.Time
		ok   bool
	}{
		"its name":         {"nodepool-webhook.kube-system.svc", now, true},
		"its address":      {"127.0.0.1", now, true},
		"a clock behind":   {"127.0.0.1", now.Add(-30 * time.Minute), true},
		"another name":     {"other.kube-system.svc", now, false},
		"after its end":    {"127.0.0.1", now.Add(25 * time.Hour), false},
		"long before then": {"127.0.0.1", now.Add(-2 * time.Hour), false},
	} {
		_, err := leaf.Verify(x509.VerifyOptions{DNSName: want.host, Roots: roots, CurrentTime: want.at})
		if (err == nil) != want.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, KeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file is %v, %v", info.Mode(), err)
	}
}

func TestASingleCertificateIsItsOwnAuthority(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	cert, key, err := NewSingle("localhost@1", []string{"localhost", "::1"}, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	for host, ok := range map[string]bool{"localhost": true, "::1": true, "localhost@1": false} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); (err == nil) != ok {
			t.Errorf("%s: %v", host, err)
		}
	}
	if got := pair.Leaf.Subject.CommonName; got != "localhost@1" {
		t.Errorf("its subject is %q", got)
	}
}

func TestWhatCannotBeMade(t *testing.T) {
	for name, err := range map[string]error{
		"no host": func() error { _, err := New(nil, time.Now(), time.Hour); return err }(),
		"no life": func() error { _, err := New([]string{"a"}, time.Now(), 0); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: made", name)
		}
	}
}
