package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// installed returns the path of a program of the system, and skips the test where it is not installed.
func installed(t *testing.T, program, packet string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian: apt-get install %s)", program, packet)
	}
	return path
}

// kubeadm returns the path of kubeadm, which hack/realnode builds into the cache folder.
func kubeadm(t *testing.T) string {
	t.Helper()
	if cache, err := os.UserCacheDir(); err == nil {
		if built, _ := filepath.Glob(filepath.Join(cache, "orrery/bin/*/kubeadm")); len(built) > 0 {
			return built[len(built)-1]
		}
	}
	path, err := exec.LookPath("kubeadm")
	if err != nil {
		t.Skip("there is no kubeadm; make test-realnode builds it")
	}
	return path
}

// TestKubeadmAppliesThePatches lets kubeadm write the static pod, without the patches and with both folders of them.
func TestKubeadmAppliesThePatches(t *testing.T) {
	program := kubeadm(t)
	write := func(patches ...string) *corev1.Pod {
		dir := t.TempDir()
		text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {advertiseAddress: 192.0.2.7}\n"
		if len(patches) > 0 {
			text += "patches: {directory: " + filepath.Join(dir, "patches") + "}\n"
		}
		text += "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.37.2\n" +
			"networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}\n"
		config := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, from := range patches {
			if err := os.CopyFS(filepath.Join(dir, "patches"), os.DirFS(root+from)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(program, "init", "phase", "control-plane", "controller-manager", "--dry-run", "--config="+config)
		cmd.Env = append(os.Environ(), "KUBEADM_INIT_DRYRUN_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubeadm: %v\n%s", err, out)
		}
		return pod(t, read(t, filepath.Join(dir, "kube-controller-manager.yaml")))
	}
	both := []string{root + "kubeadm/kube-controller-manager+strategic.yaml", root + "kubeadm-rootless/kube-controller-manager1+strategic.yaml"}
	for name, tc := range map[string]struct{ got, want *corev1.Pod }{
		"none":     {write(), patched(t)},
		"kubeadm":  {write("kubeadm"), patched(t, both[0])},
		"rootless": {write("kubeadm", "kubeadm-rootless"), patched(t, both...)},
	} {
		dropMounts(tc.got)
		dropMounts(tc.want)
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s: kubeadm writes\n%s\nwant\n%s", name, text(tc.got), text(tc.want))
		}
	}
}

// dropMounts leaves out the folders of certificates, which kubeadm mounts if the machine has them.
func dropMounts(p *corev1.Pod) {
	p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = nil, nil
}

func TestSystemdTakesTheUnit(t *testing.T) {
	analyze := installed(t, "systemd-analyze", "systemd")
	unit := string(read(t, root+"systemd/orrery.service"))
	verify := func(unit string) string {
		path := filepath.Join(t.TempDir(), "orrery.service")
		// The daemon is not installed on this machine.
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/local/bin/orrery", "/bin/true")), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", path).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := verify(unit); out != "" {
		t.Errorf("systemd-analyze: %s", out)
	}
	if out := verify(strings.Replace(unit, "MemoryMax=1G", "MemoryMax=much", 1)); !strings.Contains(out, "MemoryMax") && !strings.Contains(out, "memory limit") {
		t.Errorf("systemd-analyze does not notice a wrong setting: %q", out)
	}
}

// TestShellScripts runs shellcheck over all of them.
func TestShellScripts(t *testing.T) {
	check := installed(t, "shellcheck", "shellcheck")
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.sh", ".ci/run")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skipf("not a checkout: %v", err)
	}
	scripts := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	if len(scripts) < 2 {
		t.Fatalf("found %v", scripts)
	}
	cmd := exec.Command(check, append([]string{"--external-sources"}, scripts...)...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}
