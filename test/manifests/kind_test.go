package manifests

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// script runs the script in a copy of what it reads, with programs that only note how they were called, and returns what
// it printed and the notes.
func script(t *testing.T, env []string, args ...string) (printed string, calls []string, err error) {
	t.Helper()
	bash := installed(t, "bash", "bash")
	root, bin := t.TempDir(), t.TempDir()
	for _, dir := range []string{"hack", "manifests"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS("../../"+dir)); err != nil {
			t.Fatal(err)
		}
	}
	kubeadm, err := filepath.Abs("testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stub := `#!/bin/sh
name=$(basename "$0")
echo "$name $*" >>"$CALLS"
case "$name $*" in
"docker exec "*" cat "*) cat "` + kubeadm + `" ;;
"kind get clusters") echo "$CLUSTERS" ;;
esac
test "$name $1" != "$FAILS"
`
	for _, name := range []string{"go", "make", "kind", "kubectl", "docker"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bash, append([]string{filepath.Join(root, "hack/kind-e2e.sh")}, args...)...)
	log := filepath.Join(bin, "calls")
	cmd.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "CALLS=" + log}, env...)
	out, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(log)
	return string(out), strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

func TestKindScriptSaysWhatItWouldDo(t *testing.T) {
	const golden = "testdata/kind-dry-run.txt"
	printed, calls, err := script(t, nil, "--dry-run")
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if !slices.Equal(calls, []string{""}) {
		t.Errorf("a dry run called %q", calls)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(printed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(read(t, golden)); printed != want {
		t.Errorf("the dry run prints\n%s\nwant (go test -update writes it)\n%s", printed, want)
	}
}

// TestKindScriptRuns what it says, and cleans up when something fails.
func TestKindScriptRuns(t *testing.T) {
	const (
		rest = "docker exec orrery-control-plane mv /etc/kubernetes/kube-controller-manager-rest.yaml.next /etc/kubernetes/manifests/kube-controller-manager-rest.yaml"
		swap = "docker exec orrery-control-plane mv /etc/kubernetes/kube-controller-manager.yaml.next /etc/kubernetes/manifests/kube-controller-manager.yaml"
		gone = "docker exec orrery-control-plane rm -f /etc/kubernetes/manifests/kube-controller-manager-rest.yaml"
		runs = "make scenarios-against KUBECONFIG=_output/kind/kubeconfig"
		made = "kind create cluster --name orrery --image kindest/node:v1.37.2 --config manifests/kind/cluster.yaml --wait 5m"
		ends = "kind delete cluster --name orrery"
		back = "kubectl wait -n kube-system pod/kube-controller-manager-orrery-control-plane --for=jsonpath={.spec.containers[0].image}=registry.k8s.io/kube-controller-manager:v1.37.2 --timeout=5s"
	)
	for name, tc := range map[string]struct {
		env, args []string
		want      []string // of these calls, in this order
		fails     bool
	}{
		"from nothing":              {nil, nil, []string{made, rest, swap, runs, gone, swap, back, ends}, false},
		"kept":                      {nil, []string{"--keep"}, []string{made, rest, swap, runs, gone, swap, back}, false},
		"a cluster that is there":   {[]string{"CLUSTERS=orrery"}, nil, []string{rest, swap, runs, gone, swap, back}, false},
		"no image":                  {[]string{"FAILS=make image"}, nil, nil, true},
		"scenarios fail":            {[]string{"FAILS=make scenarios-against"}, nil, []string{made, rest, swap, runs, ends}, true},
		"scenarios fail on another": {[]string{"FAILS=make scenarios-against", "CLUSTERS=orrery"}, nil, []string{rest, swap, runs, gone, swap}, true},
		"wrong flag":                {nil, []string{"--nonsense"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed, calls, err := script(t, tc.env, tc.args...)
			if (err != nil) != tc.fails {
				t.Errorf("ended with %v:\n%s", err, printed)
			}
			got := slices.DeleteFunc(calls, func(c string) bool {
				return !slices.Contains([]string{rest, swap, gone, runs, made, ends, back}, c)
			})
			if !slices.Equal(got, tc.want) {
				t.Errorf("called\n%s\nwant\n%s\nprinted\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"), printed)
			}
		})
	}
}
