package history

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// complete fills in what kube-apiserver 1.37 fills into a pod template that leaves it out. A revision is as old as its
// writer: it lacks the defaults that have come to the API since. Values that make no difference where they are missing,
// as they have been defaults for as long as the kinds exist, are here too, for data that no server has seen.
func complete(template *corev1.PodTemplateSpec) {
	s := &template.Spec
	completeSpec(s)
	for i := range s.Volumes {
		completeVolume(&s.Volumes[i].VolumeSource)
	}
	for i := range s.InitContainers {
		completeContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		completeContainer(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		completeContainer(&c)
		s.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
}

// preset gives a field the value that it has where none is given.
func preset[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// presetPointer is preset for fields where the zero value is a value.
func presetPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func completeSpec(s *corev1.PodSpec) {
	preset(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	preset(&s.DNSPolicy, corev1.DNSClusterFirst)
	preset(&s.RestartPolicy, corev1.RestartPolicyAlways)
	preset(&s.SchedulerName, corev1.DefaultSchedulerName)
	presetPointer(&s.SecurityContext, corev1.PodSecurityContext{})
	presetPointer(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	roundUp(s.Overhead)
	if s.Resources != nil {
		roundUp(s.Resources.Limits, s.Resources.Requests)
	}
}

// roundUp brings quantities to whole thousandths, the smallest step that the API stores.
func roundUp(lists ...corev1.ResourceList) {
	for _, list := range lists {
		for name, quantity := range list {
			quantity.RoundUp(resource.Milli)
			list[name] = quantity
		}
	}
}

func completeContainer(c *corev1.Container) {
	preset(&c.ImagePullPolicy, pullPolicy(c.Image))
	preset(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	preset(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	roundUp(c.Resources.Limits, c.Resources.Requests)
	for i := range c.Ports {
		preset(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			completeFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				presetPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		completeProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				completeHTTPGet(h.HTTPGet)
			}
		}
	}
}

func completeProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	preset(&p.TimeoutSeconds, 1)
	preset(&p.PeriodSeconds, 10)
	preset(&p.SuccessThreshold, 1)
	preset(&p.FailureThreshold, 3)
	completeHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		presetPointer(&p.GRPC.Service, "")
	}
}

func completeHTTPGet(a *corev1.HTTPGetAction) {
	if a != nil {
		preset(&a.Path, "/")
		preset(&a.Scheme, corev1.URISchemeHTTP)
	}
}

func completeFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil {
		preset(&f.APIVersion, "v1")
	}
}

// pullPolicy is Always for images with the tag latest, or with neither tag nor digest, which means the same.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, pinned := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	if tag == "latest" || !tagged && !pinned {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
