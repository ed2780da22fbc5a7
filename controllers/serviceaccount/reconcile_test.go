package serviceaccount

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
)

func TestOnlyDeletionsOfAccountsWakeTheNamespace(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}}
	if deleted(nil, account) || deleted(account, account) {
		t.Error("a created or changed account needs no work")
	}
	if !deleted(account, nil) {
		t.Error("a deleted account must be looked at")
	}
	if got := namespaceOf(account); len(got) != 1 || got[0] != (kit.Key{Name: "shop"}) {
		t.Errorf("namespaceOf = %v, want the namespace's key", got)
	}
}
