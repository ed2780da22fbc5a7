package history

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// setDefaults sets the defaults that kube-apiserver 1.37 sets in a pod template. A revision lacks the defaults that were added
// to the API after it was written. Defaults that are as old as the owners' kinds, and so never missing in data that has
// passed through a server, are set too, for data that has not.
func setDefaults(template *corev1.PodTemplateSpec) {
	s := &template.Spec
	defaultSpec(s)
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i].VolumeSource)
	}
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		defaultContainer(&c)
		s.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
}

// setDefault sets a field to its default if it has the zero value.
func setDefault[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// setDefaultPointer is setDefault for optional fields.
func setDefaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultSpec(s *corev1.PodSpec) {
	setDefault(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	setDefault(&s.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&s.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&s.SchedulerName, corev1.DefaultSchedulerName)
	setDefaultPointer(&s.SecurityContext, corev1.PodSecurityContext{})
	setDefaultPointer(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	roundUp(s.Overhead)
	if s.Resources != nil {
		roundUp(s.Resources.Limits, s.Resources.Requests)
	}
}

// roundUp rounds quantities up to thousandths, as the API does.
func roundUp(lists ...corev1.ResourceList) {
	for _, list := range lists {
		for name, quantity := range list {
			quantity.RoundUp(resource.Milli)
			list[name] = quantity
		}
	}
}

func defaultContainer(c *corev1.Container) {
	setDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	roundUp(c.Resources.Limits, c.Resources.Requests)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				setDefaultPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setDefault(&p.TimeoutSeconds, 1)
	setDefault(&p.PeriodSeconds, 10)
	setDefault(&p.SuccessThreshold, 1)
	setDefault(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setDefaultPointer(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(a *corev1.HTTPGetAction) {
	if a != nil {
		setDefault(&a.Path, "/")
		setDefault(&a.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil {
		setDefault(&f.APIVersion, "v1")
	}
}

// pullPolicy returns the default pull policy of an image: Always if the tag is latest, explicitly or by default.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, pinned := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	if tag == "latest" || !tagged && !pinned {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
