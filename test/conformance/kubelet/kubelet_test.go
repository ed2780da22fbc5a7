package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// podOf makes a running pod with one container.
func podOf(uid string, c corev1.Container, volumes ...corev1.Volume) *corev1.Pod {
	c.Name = "c"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{c}, Volumes: volumes},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func hostPath(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/x"}}}
}

func claim(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-p"}}}
}

func shell(t *testing.T, d *disk, pod *corev1.Pod, script string) (int, string) {
	t.Helper()
	var out strings.Builder
	m := &machine{disk: d, pod: pod, container: &pod.Spec.Containers[0]}
	code, err := m.run(t.Context(), []string{"/bin/sh", "-x", "-c", script}, streams{strings.NewReader(""), &out, io.Discard})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return code, out.String()
}

func TestFilesLiveAsLongAsTheirVolume(t *testing.T) {
	mount := corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
	for name, test := range map[string]struct {
		volumes []corev1.Volume
		path    string
		found   bool
	}{
		"of the container": {nil, "/file", false},
		"of the pod":       {nil, "/data/file", false},
		"of the claim":     {[]corev1.Volume{claim("data")}, "/data/file", true},
		"of the node":      {[]corev1.Volume{hostPath("data")}, "/data/file", true},
		"beside the mount": {[]corev1.Volume{hostPath("data")}, "/database", false},
	} {
		d := newDisk()
		first, second := podOf("1", mount, test.volumes...), podOf("2", mount, test.volumes...)
		shell(t, d, first, "echo x > "+test.path)
		if code, _ := shell(t, d, first, "test -f "+test.path); code != 0 {
			t.Errorf("%s: the pod itself does not find it", name)
		}
		if code, _ := shell(t, d, second, "test -f "+test.path); (code == 0) != test.found {
			t.Errorf("%s: found by the next pod: %v, want %v", name, code == 0, test.found)
		}
	}
}

func TestTheShellKnowsWhatSpecsCall(t *testing.T) {
	pod := podOf("1", corev1.Container{Env: []corev1.EnvVar{
		{Name: "PLAIN", Value: "a"},
		{Name: "INDEX", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['index']"}}},
	}})
	pod.Annotations = map[string]string{"index": "3"}
	for script, want := range map[string]struct {
		code int
		out  string
	}{
		"printf $(hostname)": {0, "p"},
		"echo $PLAIN$INDEX":  {0, "a3\n"},
		"echo $(hostname) | dd of=/f conv=fsync; ln -s /f /g; cat /g": {0, "p\n"},
		"dd if=/dev/zero of=/z bs=1 count=1 conv=fsync; test -s /z":   {0, ""},
		"mv -v /absent /tmp/ || true":                                 {0, ""},
		"touch /a; mv -v /a /tmp/; test -f /tmp/a && ! test -f /a":    {0, ""},
		"if [[ -r /absent ]]\nthen\n exit 0\nelse\n exit 42\nfi":      {42, ""},
		"ls -idlh /data; find /data; touch /data/1":                   {0, "/data\n/data\n"},
		"made-up --program": {unknownProgram, ""},
		"if [ \"$(cat /f)\" = \"$(hostname)\" ]; then exit 0; fi; exit 1": {1, ""},
	} {
		if code, out := shell(t, newDisk(), pod, script); code != want.code || out != want.out {
			t.Errorf("%s: exit code %d and %q, want %d and %q", script, code, out, want.code, want.out)
		}
	}
	m := &machine{disk: newDisk(), pod: pod, container: &pod.Spec.Containers[0]}
	if _, err := m.run(t.Context(), []string{"sleep", "100"}, streams{strings.NewReader(""), io.Discard, io.Discard}); !errors.Is(err, errKeepsRunning) {
		t.Errorf("sleep: %v", err)
	}
}

func TestReadinessFollowsFiles(t *testing.T) {
	probe := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h} }
	get := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: served}}
	run := func(words ...string) corev1.ProbeHandler {
		return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: words}}
	}
	server := corev1.Container{Image: "registry/agnhost:2", Args: []string{"test-webserver"}, ReadinessProbe: probe(get)}
	for name, test := range map[string]struct {
		container corev1.Container
		before    string
		want      bool
	}{
		"no probe":               {corev1.Container{}, "true", true},
		"served":                 {server, "true", true},
		"moved away":             {server, "mv " + served + " /tmp/", false},
		"moved back":             {server, "mv " + served + " /tmp/; mv /tmp" + served + " /", true},
		"other servers":          {corev1.Container{Image: "nginx", ReadinessProbe: probe(get)}, "true", true},
		"file that is not there": {corev1.Container{ReadinessProbe: probe(run("test", "-f", "/go"))}, "true", false},
		"file that is there":     {corev1.Container{ReadinessProbe: probe(run("test", "-f", "/go"))}, "touch /go", true},
		"nobody knows":           {corev1.Container{ReadinessProbe: probe(run("made-up"))}, "true", true},
	} {
		d, pod := newDisk(), podOf("1", test.container)
		unpack(d, pod)
		shell(t, d, pod, test.before)
		unpack(d, pod) // a second time, as with every command
		if got, err := ready(context.Background(), d, pod); err != nil || got != test.want {
			t.Errorf("%s: ready %v, %v, want %v", name, got, err, test.want)
		}
	}
}

// once fails when it runs for the first time on a node.
const once = "if [[ -r /data/x ]]\nthen\n exit 0\nelse\n touch /data/x\n exit 42\nfi"

func TestTheSecondPodFindsWhatTheFirstLeft(t *testing.T) {
	c := corev1.Container{Command: []string{"/bin/sh", "-c"}, Args: []string{once},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
	restarted := c
	again := corev1.ContainerRestartPolicyOnFailure
	restarted.RestartPolicy = &again
	for name, test := range map[string]struct {
		container     corev1.Container
		first, second string
	}{
		"as it is":               {c, "42", "0"},
		"restarted in its place": {restarted, "0", "0"},
	} {
		k := &Kubelet{disk: newDisk()}
		for i, want := range []string{test.first, test.second} {
			pod := podOf(string(rune('1'+i)), test.container, hostPath("data"))
			client := fake.NewSimpleClientset(pod)
			k.client = client
			if err := k.begin(t.Context(), pod, ports{}); err != nil {
				t.Fatal(err)
			}
			got, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Annotations[exitCode] != want || got.Annotations[runFor] != "0s" {
				t.Errorf("%s, pod %d: annotations %v, want exit code %s", name, i+1, got.Annotations, want)
			}
		}
	}
}

func TestAPortOfANodeIsHeldByOnePod(t *testing.T) {
	c := corev1.Container{Ports: []corev1.ContainerPort{{HostPort: 80}}}
	first, second, elsewhere := podOf("1", c), podOf("2", c), podOf("3", c)
	elsewhere.Spec.NodeName = "node-2"
	client := fake.NewSimpleClientset(second)
	k, held := &Kubelet{disk: newDisk(), client: client}, ports{}
	phase := func() corev1.PodPhase {
		got, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status.Phase
	}
	for _, pod := range []*corev1.Pod{first, elsewhere} {
		if err := k.begin(t.Context(), pod, held); err != nil || phase() != corev1.PodRunning {
			t.Errorf("pod %s: %v, phase %s", pod.UID, err, phase())
		}
	}
	if err := k.begin(t.Context(), second, held); err != nil || phase() != corev1.PodFailed {
		t.Errorf("%v, phase %s, want a rejected pod", err, phase())
	}
	held.release(first.UID)
	if !held.take(second) {
		t.Error("the port is not free when its pod is gone")
	}
}

func TestAPodThatKwokCanReadIsLeftAlone(t *testing.T) {
	pod := podOf("1", corev1.Container{Command: []string{"sh", "-c", "exit 1"}}, hostPath("data"))
	client := fake.NewSimpleClientset(pod)
	k := &Kubelet{disk: newDisk(), client: client}
	if err := k.begin(t.Context(), pod, ports{}); err != nil || len(client.Actions()) > 0 {
		t.Errorf("%v, and the calls %v", err, client.Actions())
	}
}

func TestNodesGetTheirKubelet(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.16.0.1"}}}}
	client := fake.NewSimpleClientset(node)
	k, err := Start(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	}()
	got, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got.Status.Addresses)
	if got.Status.DaemonEndpoints.KubeletEndpoint.Port == 0 || !strings.Contains(string(text), "172.16.0.1") || !strings.Contains(string(text), "localhost") {
		t.Errorf("port %d, addresses %s", got.Status.DaemonEndpoints.KubeletEndpoint.Port, text)
	}
}
