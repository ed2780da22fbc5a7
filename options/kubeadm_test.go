package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery/kit/selfsigned"
)

// writeCertificates writes those of kubeadm's files that are looked into.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	bundle, err := selfsigned.New([]string{"kubernetes"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"ca.crt": bundle.CA, "front-proxy-ca.crt": bundle.CA, "ca.key": bundle.Key, "sa.key": bundle.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// manifests returns the command lines that kubeadm writes, by configuration. Its files are a test's here.
func manifests(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/kubeadm.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeCertificates(t, dir)
	lines, name := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			name = rest
			continue
		}
		lines[name] = append(lines[name], strings.ReplaceAll(line, "/etc/kubernetes/pki", dir))
	}
	if len(lines) != 6 {
		t.Fatalf("found %d configurations", len(lines))
	}
	return lines
}

// TestWhatKubeadmWritesIsTaken takes its flags as they are: none is unknown, each has its value, and all that is said about
// them is that they belong to controllers which are not there.
func TestWhatKubeadmWritesIsTaken(t *testing.T) {
	for name, args := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			s := mustParse(t, args...)
			if err := validate(s); err != nil {
				t.Errorf("not valid: %v", err)
			}
			for _, warning := range s.Warnings() {
				if !strings.Contains(warning, "not in this build") && !strings.Contains(warning, "MutableCSINodeAllocatableCount") && !strings.Contains(warning, "InPlacePodVerticalScaling") {
					t.Errorf("warned: %s", warning)
				}
			}
			effective := s.EffectiveFlags()
			for _, arg := range args {
				flag, value, _ := strings.Cut(arg, "=")
				if flag == "--feature-gates" || flag == "--controllers" {
					continue // read into parts
				}
				i := slices.IndexFunc(effective, func(e string) bool { return strings.HasPrefix(e, flag+"=") })
				if i < 0 || strings.Trim(strings.TrimPrefix(effective[i], flag+"="), `"[]`) != value {
					t.Errorf("%s took no effect: %v", arg, effective[max(0, i):min(len(effective), i+1)])
				}
			}
			if !s.IsEnabled(s.Controllers[5]) {
				t.Error("the token cleaner is named, and stays off")
			}
		})
	}
}

// TestADefectInWhatKubeadmWritesIsSeen keeps the test above from passing with anything.
func TestADefectInWhatKubeadmWritesIsSeen(t *testing.T) {
	args := append(manifests(t)["with a pod network"], "--cluster-cidr=10.0.0.0/33", "--secure-port=70000")
	if err := validate(mustParse(t, args...)); err == nil || !strings.Contains(err.Error(), "secure-port") || !strings.Contains(err.Error(), "10.0.0.0/33") {
		t.Errorf("two defects: %v", err)
	}
}
