package slim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// Kinds returns what to drop, per kind.
func Kinds() map[schema.GroupVersionKind]cache.Slimming {
	v1 := corev1.SchemeGroupVersion
	return map[schema.GroupVersionKind]cache.Slimming{
		v1.WithKind("Pod"):       {Drop: pod, Undecoded: podOnWire()},
		v1.WithKind("Node"):      {Drop: node, Undecoded: nodeOnWire()},
		v1.WithKind("ConfigMap"): {Drop: configMap, Whole: publishedCA},
		v1.WithKind("Secret"):    {Drop: secret, Whole: tokenSecret},
	}
}

// pod keeps only the ports, resources and restart rules of containers, and only the volumes with claims. It drops fields
// that only the kubelet reads.
func pod(o client.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	delete(p.Annotations, corev1.LastAppliedConfigAnnotation)
	s := &p.Spec
	for i := range s.Containers {
		s.Containers[i] = container(s.Containers[i])
	}
	for i := range s.InitContainers {
		s.InitContainers[i] = container(s.InitContainers[i])
	}
	for i := range s.EphemeralContainers {
		s.EphemeralContainers[i] = corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: s.EphemeralContainers[i].Name},
		}
	}
	s.Volumes = slices.DeleteFunc(s.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil && v.Ephemeral == nil })
	if len(s.Volumes) == 0 {
		s.Volumes = nil
	}
	s.SecurityContext, s.DNSConfig, s.ImagePullSecrets, s.HostAliases, s.EnableServiceLinks = nil, nil, nil, nil, nil
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for i := range list {
			status(&list[i])
		}
	}
	p.Status.HostIPs = nil
}

func container(c corev1.Container) corev1.Container {
	return corev1.Container{Name: c.Name, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules}
}

func status(s *corev1.ContainerStatus) {
	s.Image, s.ImageID, s.ContainerID = "", "", ""
	s.AllocatedResources, s.Resources, s.VolumeMounts, s.User, s.AllocatedResourcesStatus = nil, nil, nil, nil, nil
	s.LastTerminationState = corev1.ContainerState{}
}

// node drops the list of images, which is most of a Node.
func node(o client.Object) {
	if n, ok := o.(*corev1.Node); ok {
		n.Status.Images = nil
		delete(n.Annotations, corev1.LastAppliedConfigAnnotation)
	}
}

// publishedCA selects the ConfigMap that a controller publishes in each namespace.
func publishedCA(o client.Object) bool { return o.GetName() == "kube-root-ca.crt" }

func configMap(o client.Object) {
	if c, ok := o.(*corev1.ConfigMap); ok {
		c.Data, c.BinaryData, c.Annotations = nil, nil, nil
	}
}

// tokenSecret selects the Secrets that a controller fills in.
func tokenSecret(o client.Object) bool {
	s, ok := o.(*corev1.Secret)
	return ok && s.Type == corev1.SecretTypeServiceAccountToken
}

// secret drops the data of Secrets, so that the process holds no secret data that it does not need.
func secret(o client.Object) {
	if s, ok := o.(*corev1.Secret); ok {
		s.Data, s.StringData, s.Annotations = nil, nil, nil
	}
}
