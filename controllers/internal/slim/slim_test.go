package slim

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodKeepsWhatControllersRead(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	cpu := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	secret := corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}
	terminated := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
	full := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "long", corev1.PodDeletionCost: "5"}},
		Spec: corev1.PodSpec{NodeName: "n", Tolerations: []corev1.Toleration{{Key: "a"}}, ServiceAccountName: "sa",
			Volumes:          []corev1.Volume{secret, claim, secret},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "x"}},
			InitContainers:   []corev1.Container{{Name: "i", Image: "img", RestartPolicy: &always}},
			Containers:       []corev1.Container{{Name: "c", Image: "img", Env: []corev1.EnvVar{{Name: "E"}}, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}, Resources: cpu}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ImageID: "long", RestartCount: 4, Ready: true, State: terminated, LastTerminationState: terminated}}},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{corev1.PodDeletionCost: "5"}},
		Spec: corev1.PodSpec{NodeName: "n", Tolerations: []corev1.Toleration{{Key: "a"}}, ServiceAccountName: "sa",
			Volumes:        []corev1.Volume{claim},
			InitContainers: []corev1.Container{{Name: "i", RestartPolicy: &always}},
			Containers:     []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}, Resources: cpu}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: 4, Ready: true, State: terminated}}},
	}
	pod(full)
	if !reflect.DeepEqual(full, want) {
		t.Errorf("pod = %+v\nwant %+v", full, want)
	}
	if hidden := full.Spec.Volumes[:cap(full.Spec.Volumes)]; hidden[len(hidden)-1].Secret != nil {
		t.Error("a dropped volume is still in memory")
	}
}

func TestOnlyWhatIsWrittenWholeStaysWhole(t *testing.T) {
	kinds := Kinds()
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}
	}
	maps := kinds[corev1.SchemeGroupVersion.WithKind("ConfigMap")]
	if !maps.Whole(named("kube-root-ca.crt")) || maps.Whole(named("mine")) {
		t.Error("of the config maps only kube-root-ca.crt is kept whole")
	}
	secrets := kinds[corev1.SchemeGroupVersion.WithKind("Secret")]
	token := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken}
	opaque := &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("x")}}
	if !secrets.Whole(token) || secrets.Whole(opaque) {
		t.Error("of the Secrets only those of service account tokens are kept whole")
	}
	mine := named("mine")
	maps.Drop(mine)
	secrets.Drop(opaque)
	if mine.Data != nil || opaque.Data != nil {
		t.Errorf("data of others is kept: %v, %v", mine.Data, opaque.Data)
	}
	n := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}, Conditions: []corev1.NodeCondition{{}}}}
	kinds[corev1.SchemeGroupVersion.WithKind("Node")].Drop(n)
	if n.Status.Images != nil || len(n.Status.Conditions) != 1 {
		t.Errorf("node status = %+v", n.Status)
	}
	for _, k := range kinds {
		k.Drop(&metav1.PartialObjectMetadata{}) // of another form: nothing to drop, and no panic
	}
}
