package cafile

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func certificate(t *testing.T, serial int64) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestABundleFollowsItsFileAndSurvivesIt(t *testing.T) {
	one, two := certificate(t, 1), certificate(t, 2)
	path := filepath.Join(t.TempDir(), "ca.crt")
	write := func(data string) {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(path, []byte("fixed")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: error = %v, want one that names it", err)
	}
	write(one)
	f, err := New(path, []byte("fixed"))
	if err != nil || string(f.Bundle()) != one {
		t.Fatalf("New = %q, %v; want the file's bundle", f.Bundle(), err)
	}
	for _, step := range []struct {
		name, data, want string
		changed, fails   bool
	}{
		{"unchanged", one, one, false, false},
		{"changed", two, two, true, false},
		{"empty", "", two, false, true},
		{"no certificate", "x", two, false, true},
		{"a broken certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", two, false, true},
		{"two certificates", one + two, one + two, true, false},
	} {
		write(step.data)
		changed, err := f.Reread()
		if changed != step.changed || (err != nil) != step.fails || string(f.Bundle()) != step.want {
			t.Errorf("%s: changed %t, error %v, bundle as wanted %t", step.name, changed, err, string(f.Bundle()) == step.want)
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v does not name the file", step.name, err)
		}
	}
}

func TestAFixedBundleNeverChanges(t *testing.T) {
	f, err := New("", []byte("fixed"))
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := f.Reread(); changed || err != nil || string(f.Bundle()) != "fixed" {
		t.Errorf("Reread = %t, %v, bundle %q", changed, err, f.Bundle())
	}
}
