package serviceaccount

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/kit"
)

// Name of the controller.
const Name = "serviceaccount-controller"

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	return kit.Descriptor{
		Name: Name, Aliases: []string{"serviceaccount"}, ServiceAccount: "service-account-controller",
		Summary: "creates the default ServiceAccount of each namespace",
		Init:    initialize,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"create"}},
		},
	}
}

func initialize(cc kit.ControllerContext) (bool, error) {
	r := &reconciler{accounts: kit.Store[corev1.ServiceAccount](cc), client: cc.Client}
	return true, kit.NewController(cc, kit.Objects(kit.Store[corev1.Namespace](cc), r)).
		Watch(kit.For[corev1.Namespace](), kit.Watches(namespaceOf, deleted)).
		Queue("serviceaccount").Complete()
}

// deleted accepts only deletions: a deleted default account must be created again.
func deleted(_, account *corev1.ServiceAccount) bool { return account == nil }

func namespaceOf(account *corev1.ServiceAccount) []kit.Key {
	return []kit.Key{{Name: account.Namespace}}
}
