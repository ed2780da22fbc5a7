package garbagecollector

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

// TestFaultsAtEachWrite: however the process is disturbed, at any of its writes, the same objects are collected, and no owner is
// deleted before the dependents that block it.
func TestFaultsAtEachWrite(t *testing.T) {
	family := func(t *testing.T, api *kittest.API) {
		owner, other := configMap("owner"), configMap("other")
		api.Create(t, owner)
		api.Create(t, other)
		child := configMap("child", blocking(by(owner)))
		for _, o := range []client.Object{child, configMap("second", by(owner)), configMap("shared", by(owner), by(other)), configMap("apart", by(other))} {
			api.Create(t, o)
		}
		api.Create(t, configMap("grandchild", by(child)))
	}
	remove := func(policy metav1.DeletionPropagation) func(t *testing.T, api *kittest.API) {
		return func(t *testing.T, api *kittest.API) {
			api.DeleteWith(t, configMap("owner"), metav1.DeleteOptions{PropagationPolicy: &policy})
		}
	}
	held := func(t *testing.T, api *kittest.API) string {
		owner := configMap("owner")
		if !api.Get(t, owner) && api.Get(t, configMap("child")) {
			return "the owner is gone before the dependent that blocks it"
		}
		return ""
	}
	for name, p := range map[string]kittest.FaultTest{
		"background": {Change: remove(metav1.DeletePropagationBackground)},
		"foreground": {Change: remove(metav1.DeletePropagationForeground), Always: held},
		"orphan":     {Change: remove(metav1.DeletePropagationOrphan)},
	} {
		p.Run, p.Given = []any{(&options{enabled: true, workers: 20}).init}, family
		p.Kinds = []string{"ConfigMap"}
		t.Run(name, func(t *testing.T) { kittest.InjectFaults(t, p) })
	}
}
