package kubelet

import (
	"context"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// served is the file that the web server's image brings along, and that probes ask for.
const served = "/localhost.crt"

// servesFiles reports whether a container is the web server of the specs, which serves its own files.
func servesFiles(c *corev1.Container) bool {
	return strings.Contains(c.Image, "agnhost") && len(c.Args) > 0 && c.Args[0] == "test-webserver"
}

// unpack makes the files of the images, once per container.
func unpack(d *disk, pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		mark := key(pod, c, "/.unpacked")
		if _, done := d.read(mark); done || !servesFiles(c) {
			continue
		}
		d.write(mark, nil)
		d.write(key(pod, c, served), []byte("certificate"))
	}
}

// ready runs the readiness probes of a pod, those that files decide.
func ready(ctx context.Context, d *disk, pod *corev1.Pod) (bool, error) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		switch probe := c.ReadinessProbe; {
		case probe == nil:
		case probe.Exec != nil:
			m := &machine{disk: d, pod: pod, container: c}
			code, err := m.run(ctx, probe.Exec.Command, streams{strings.NewReader(""), io.Discard, io.Discard})
			if err != nil || code != 0 && code != unknownProgram {
				return false, err
			}
		case probe.HTTPGet != nil && servesFiles(c):
			if _, exists := d.read(key(pod, c, probe.HTTPGet.Path)); !exists {
				return false, nil
			}
		}
	}
	return true, nil
}
