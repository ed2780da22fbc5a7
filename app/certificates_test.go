package app

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertificatesForNoTimeOrTooLongAreRefused(t *testing.T) {
	for _, days := range []string{"0", "-1", "36501", "200000"} {
		dir := filepath.Join(t.TempDir(), "certs")
		cmd := newCertificatesCommand()
		cmd.SetArgs([]string{"--dir", dir, "--days", days})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--days") {
			t.Errorf("--days %s: %v", days, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("--days %s: the folder was made", days)
		}
	}
}
