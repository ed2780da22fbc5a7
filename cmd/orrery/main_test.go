package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// TestTheBinaryBringsAuthorities asks for them where the system has none, as in an image from scratch.
func TestTheBinaryBringsAuthorities(t *testing.T) {
	const inside = "ORRERY_TEST_WITHOUT_SYSTEM"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = []string{inside + "=1", "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=" + t.TempDir()}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if pool.Equal(x509.NewCertPool()) {
		t.Error("no authority is known")
	}
}
