package httpx

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"orrery/kit/selfsigned"
)

func TestAKeyPairStaysUntilItsSuccessorIsComplete(t *testing.T) {
	certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	write := func(cert, key []byte) {
		for file, data := range map[string][]byte{certFile: cert, keyFile: key} {
			err := os.WriteFile(file, data, 0o600)
			if data == nil {
				err = os.Remove(file)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	makePair := func(name string) (cert, key []byte) {
		cert, key, err := selfsigned.NewSingle(name, []string{"localhost"}, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	var p KeyPair
	if changed, err := p.Load(certFile, keyFile); changed || err == nil || p.Current() != nil {
		t.Errorf("without files: changed %t, error %v", changed, err)
	}
	oldCert, oldKey := makePair("old")
	newCert, newKey := makePair("new")
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("junk")})
	for _, step := range []struct {
		name            string
		cert, key       []byte
		changed, failed bool
		serves          string
	}{
		{"the first", oldCert, oldKey, true, false, "old"},
		{"no change", oldCert, oldKey, false, false, "old"},
		{"the certificate before its key", newCert, oldKey, false, true, "old"},
		{"half a key", newCert, newKey[:len(newKey)/2], false, true, "old"},
		{"a broken issuer", bytes.Join([][]byte{newCert, broken}, nil), newKey, false, true, "old"},
		{"both gone, before they are replaced", nil, nil, false, true, "old"}, // as in controller-runtime#3020
		{"both", newCert, newKey, true, false, "new"},
		{"the key gone", newCert, nil, false, true, "new"},
	} {
		write(step.cert, step.key)
		changed, err := p.Load(certFile, keyFile)
		if got := p.Current().Leaf.Subject.CommonName; changed != step.changed || (err != nil) != step.failed || got != step.serves {
			t.Errorf("%s: changed %t, error %v, serves %q", step.name, changed, err, got)
		}
	}
}
