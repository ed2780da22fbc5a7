package slim

import (
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"orrery/kit/client"
	"orrery/kit/wire"
)

// encoded is an object that can be encoded.
type encoded interface {
	client.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func TestWhatIsNotDecodedIsWhatWouldBeDropped(t *testing.T) {
	kinds := Kinds()
	for name, make := range map[string]func() encoded{
		"Pod":  func() encoded { return &corev1.Pod{} },
		"Node": func() encoded { return &corev1.Node{} },
	} {
		t.Run(name, func(t *testing.T) {
			s := kinds[corev1.SchemeGroupVersion.WithKind(name)]
			cut, shorter := wire.New(s.Undecoded), 0
			fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme.Scheme))
			for range 300 {
				one := make()
				fill.Fill(one)
				data, err := one.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				left, ok := cut.Append(nil, data)
				if !ok {
					t.Fatal("the encoded object could not be read")
				}
				want, got := make(), make()
				if err := want.Unmarshal(data); err != nil {
					t.Fatal(err)
				}
				if err := got.Unmarshal(left); err != nil {
					t.Fatalf("decode what is left: %v", err)
				}
				s.Drop(want)
				s.Drop(got)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("got %+v\nwant %+v", got, want)
				}
				if len(left) < len(data) {
					shorter++
				}
			}
			if shorter == 0 {
				t.Error("nothing was left out of any object")
			}
		})
	}
}

// A pod as a cluster has it, to see by how much there is less to decode.
func TestMostOfAPodIsNotDecoded(t *testing.T) {
	pod := typical()
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	left, _ := wire.New(podOnWire()).Append(nil, data)
	if 2*len(left) > len(data) {
		t.Errorf("%d of %d bytes are decoded, which is more than half", len(left), len(data))
	}
}

func BenchmarkDecodeAPod(b *testing.B) {
	data, err := typical().Marshal()
	if err != nil {
		b.Fatal(err)
	}
	cut := wire.New(podOnWire())
	for _, lean := range []bool{false, true} {
		b.Run(map[bool]string{false: "whole", true: "lean"}[lean], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				in := data
				if lean {
					in, _ = cut.Append(make([]byte, 0, len(data)), data)
				}
				var p corev1.Pod
				if err := p.Unmarshal(in); err != nil {
					b.Fatal(err)
				}
				pod(&p)
			}
		})
	}
}

func typical() *corev1.Pod {
	yes, seconds, mode := true, int64(3607), int32(420)
	return &corev1.Pod{
		Spec: corev1.PodSpec{
			NodeName: "node-1", SchedulerName: "default-scheduler", ServiceAccountName: "default", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.example/app:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env:                    []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
				VolumeMounts:           []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
			}},
			Volumes: []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode,
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
				}}}}},
			SecurityContext: &corev1.PodSecurityContext{}, EnableServiceLinks: &yes,
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true, Image: "registry.example/app:1", ImageID: "registry.example/app@sha256:0000", ContainerID: "containerd://0000"}}},
	}
}
