package rootcapublisher

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/controllers/internal/cafile"
	"orrery/kit"
	"orrery/options"
)

const (
	// Name of the controller.
	Name = "root-ca-certificate-publisher-controller"
	// configMapName is the ConfigMap that pods mount.
	configMapName = "kube-root-ca.crt"
	workers       = 2
)

// Descriptor describes the controller to the daemon.
func Descriptor(s *options.Shared) kit.Descriptor {
	return kit.Descriptor{
		Name: Name, Aliases: []string{"root-ca-cert-publisher"}, ServiceAccount: "root-ca-cert-publisher",
		Summary: "publishes the API server's CA to every namespace",
		Init:    func(cc kit.ControllerContext) (bool, error) { return initialize(cc, s) },
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "update"}},
		},
	}
}

func initialize(cc kit.ControllerContext, s *options.Shared) (bool, error) {
	ca, err := cafile.New(s.RootCAFile, cc.RootCA)
	if err != nil {
		return false, fmt.Errorf("--root-ca-file: %w", err)
	}
	r := &reconciler{
		namespaces: kit.Store[corev1.Namespace](cc), configMaps: kit.Store[corev1.ConfigMap](cc),
		client: cc.Client, ca: ca, metrics: newMetrics(),
	}
	if cc.Register != nil {
		cc.Register(r.metrics.syncs, r.metrics.durations)
	}
	changed := kit.NewTrigger[string]()
	err = cafile.Follow(cc, ca, func() {
		for _, ns := range r.namespaces.List("") {
			changed.Add(ns.Name)
		}
	})
	if err != nil {
		return false, err
	}
	return true, kit.NewController(cc, r).
		Watch(kit.Watches(activeName), kit.Watches(namespaceOf, published), changed.Source()).
		Queue("root_ca_cert_publisher").Workers(workers).Complete()
}

func activeName(ns *corev1.Namespace) []string {
	if ns.Status.Phase != corev1.NamespaceActive {
		return nil
	}
	return []string{ns.Name}
}

// published accepts changes and deletions of the ConfigMap. A creation needs no reconcile: it is this controller's own, or
// the ConfigMap is seen when the namespace is first reconciled.
func published(old, new *corev1.ConfigMap) bool { return old != nil && old.Name == configMapName }

func namespaceOf(c *corev1.ConfigMap) []string { return []string{c.Namespace} }
