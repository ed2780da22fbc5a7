package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orrery/kit/webhook"
)

// pair is a folder with a certificate and its key.
type pair struct{ dir string }

func newPair(t *testing.T, name string) pair {
	t.Helper()
	p := pair{t.TempDir()}
	p.write(t, name)
	return p
}

// write makes a certificate for a name.
func (p pair) write(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p.put(t, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	p.put(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
}

func (p pair) put(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// presented returns the name in the certificate that a server shows.
func presented(address string) (string, error) {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestTheServerAnswersAndTakesUpNewCertificates(t *testing.T) {
	certs := newPair(t, "one")
	s, err := webhook.New(t.Context(), webhook.Options{CertDir: certs.dir, Scheme: scheme(), Listener: listen(t), ReloadInterval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, "/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	quick, done := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer done()
	if err := s.Check(r.WithContext(quick)); err == nil {
		t.Error("ready before it answers")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	eventually(t, "ready", func() error { return s.Check(r) })
	shows := func(want string) func() error {
		return func() error {
			got, err := presented(s.Addr().String())
			if err == nil && got != want {
				err = fmt.Errorf("certificate of %q, want %q", got, want)
			}
			return err
		}
	}
	eventually(t, "first certificate", shows("one"))
	certs.put(t, "tls.key", []byte("half written"))
	time.Sleep(50 * time.Millisecond)
	if err := shows("one")(); err != nil {
		t.Errorf("after a bad key: %v", err)
	}
	certs.write(t, "two")
	eventually(t, "second certificate", shows("two"))
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if err := s.Check(r); err == nil {
		t.Error("ready after the end")
	}
}

func TestWhatIsWrongIsSaidByNew(t *testing.T) {
	taken := listen(t)
	port := taken.Addr().(*net.TCPAddr).Port
	certs := newPair(t, "one").dir
	broken := newPair(t, "one")
	broken.put(t, "tls.crt", []byte("nothing"))
	for _, tc := range []struct {
		name string
		o    webhook.Options
		want string
	}{
		{"no scheme", webhook.Options{CertDir: certs}, "Scheme"},
		{"no folder", webhook.Options{Scheme: scheme()}, "CertDir"},
		{"no certificate", webhook.Options{Scheme: scheme(), CertDir: t.TempDir()}, "tls.crt"},
		{"bad certificate", webhook.Options{Scheme: scheme(), CertDir: broken.dir}, "tls.crt"},
		{"port taken", webhook.Options{Scheme: scheme(), CertDir: certs, Host: "127.0.0.1", Port: port}, "address already in use"},
		{"bad address", webhook.Options{Scheme: scheme(), CertDir: certs, Host: "256.0.0.1"}, "256.0.0.1"},
		{"bad port", webhook.Options{Scheme: scheme(), CertDir: certs, Host: "127.0.0.1", Port: 70000}, "70000"},
	} {
		_, err := webhook.New(t.Context(), tc.o)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestAServerWhosePortIsGoneSaysSo(t *testing.T) {
	l := listen(t)
	s, err := webhook.New(t.Context(), webhook.Options{CertDir: newPair(t, "one").dir, Scheme: scheme(), Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run = %v", err)
	}
}
