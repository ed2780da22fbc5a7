// Package manifests checks what is in the manifests folder and the scripts around it: that it says what the daemon
// understands, and no more than it should.
package manifests

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"orrery/app"
	"orrery/controllers"
	"orrery/controllers/nodepool"
	"orrery/options"
)

const root = "../../manifests/"

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func pod(t *testing.T, data []byte) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(data, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// patched returns kubeadm's static pod after the strategic patches, which is how kubeadm applies those of its folder.
func patched(t *testing.T, patches ...string) *corev1.Pod {
	t.Helper()
	data, err := yaml.YAMLToJSON(read(t, "testdata/kubeadm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range patches {
		text := read(t, path)
		pod(t, text) // knows every field of the patch
		patch, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if data, err = strategicpatch.StrategicMergePatch(data, patch, corev1.Pod{}); err != nil {
			t.Fatal(err)
		}
	}
	return pod(t, data)
}

func TestStaticPodIsKubeadmsWithThePatch(t *testing.T) {
	got := patched(t, root+"kubeadm/kube-controller-manager+strategic.yaml")
	want := pod(t, read(t, root+"static-pod/kube-controller-manager.yaml"))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the patch gives\n%s\nand manifests/static-pod has\n%s", text(got), text(want))
	}
}

func text(p *corev1.Pod) string {
	data, _ := json.MarshalIndent(p, "", " ")
	return string(data)
}

func TestStaticPodsAreConfined(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"static pod":     pod(t, read(t, root+"static-pod/kube-controller-manager.yaml")),
		"rootless patch": patched(t, root+"kubeadm/kube-controller-manager+strategic.yaml", root+"kubeadm-rootless/kube-controller-manager1+strategic.yaml"),
	} {
		c := p.Spec.Containers[0]
		s := c.SecurityContext
		switch {
		case len(p.Spec.Containers) != 1 || len(p.Spec.InitContainers) > 0 || p.Spec.HostPID || p.Spec.HostIPC:
			t.Errorf("%s: more than one container with the host's network", name)
		case *s.AllowPrivilegeEscalation || *s.Privileged || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0:
			t.Errorf("%s: security context %+v", name, s)
		case p.Spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
			t.Errorf("%s: seccomp profile %+v", name, p.Spec.SecurityContext.SeccompProfile)
		case c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero():
			t.Errorf("%s: resources %+v", name, c.Resources)
		}
		for what, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, " /healthz": c.StartupProbe, "/readyz": c.ReadinessProbe} {
			if h := probe.HTTPGet; h.Path != strings.TrimSpace(what) || h.Host != "127.0.0.1" || h.Scheme != "HTTPS" || h.Port.StrVal != c.Ports[0].Name || c.Ports[0].ContainerPort != 10257 {
				t.Errorf("%s: probe %+v", name, h)
			}
		}
		for _, m := range c.VolumeMounts {
			if !m.ReadOnly {
				t.Errorf("%s: may write %s", name, m.MountPath)
			}
		}
	}
}

// rest returns kubeadm's static pod after the patch for the manager that runs beside Orrery.
func rest(t *testing.T) *corev1.Pod {
	t.Helper()
	base, err := yaml.YAMLToJSON(read(t, "testdata/kubeadm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON(read(t, root+"static-pod/rest-patch.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	data, err := patch.Apply(base)
	if err != nil {
		t.Fatal(err)
	}
	return pod(t, data)
}

// TestFlagsOfTheStaticPodsAreKnown to the daemon; upstream's, which the rest runs, are the same.
func TestFlagsOfTheStaticPodsAreKnown(t *testing.T) {
	for _, p := range []*corev1.Pod{pod(t, read(t, root+"static-pod/kube-controller-manager.yaml")), rest(t)} {
		command := p.Spec.Containers[0].Command
		if command[0] != "kube-controller-manager" {
			t.Errorf("%s starts %s", p.Name, command[0])
		}
		if err := app.NewControllerManagerCommand().ParseFlags(command[1:]); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// TestTheRestLeavesAloneWhatOrreryDoes compares the two static pods: between them every controller runs once.
func TestTheRestLeavesAloneWhatOrreryDoes(t *testing.T) {
	before, after := patched(t), rest(t)
	s := options.NewCMServer()
	var off []string
	for _, d := range controllers.All(&s.Shared) {
		if d.Name != nodepool.Name {
			off = append(off, "-"+d.Name)
		}
	}
	before.Name, before.Labels["component"] = "kube-controller-manager-rest", "kube-controller-manager-rest"
	c := &before.Spec.Containers[0]
	c.Ports[0].ContainerPort = 10267
	c.Command = append(c.Command, "--leader-elect-resource-name=kube-controller-manager-rest", "--secure-port=10267")
	last := len(after.Spec.Containers[0].Command) - 1
	got, isFlag := strings.CutPrefix(after.Spec.Containers[0].Command[last], "--controllers=")
	list := strings.Split(got, ",")
	slices.Sort(list)
	slices.Sort(off)
	if !isFlag || len(off) == 0 || !slices.Equal(list, off) {
		t.Errorf("the rest has\n%s\nwant\n%s", list, off)
	}
	after.Spec.Containers[0].Command = after.Spec.Containers[0].Command[:last]
	if !reflect.DeepEqual(before, after) {
		t.Errorf("the rest is\n%s\nwant\n%s", text(after), text(before))
	}
}
