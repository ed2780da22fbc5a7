package client_test

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

func TestDryWritesSayWhatTheyWouldChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := true
		old := settings("default", "old")
		api := kittest.New(t, old)
		cc := api.Context("rehearsal")
		api.RunIn(t, cc, func(cc kit.ControllerContext) (bool, error) {
			kit.Store[corev1.ConfigMap](cc)
			return true, kit.NewController(cc, kit.Func[string](nil)).Complete()
		})
		api.Settle()
		c := cc.Client.DryRun()
		var log client.WriteLog
		ctx := client.WithWriteLog(t.Context(), &log)

		next := must(client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(old))).DeepCopy()
		next.Data = map[string]string{"a": "2"}
		must(client.Update[corev1.ConfigMap](ctx, c, next))
		must(client.PatchObject[corev1.ConfigMap](ctx, c, next, client.MergePatch([]byte(`{"data":{"b":"`+strings.Repeat("x", 999)+`"}}`))))
		made := settings("default", "")
		made.GenerateName = "made-"
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "old", UID: "u", Controller: &yes}}
		must(client.Create[corev1.ConfigMap](ctx, c, made))
		if err := client.Delete(ctx, c, next, client.Background); err != nil {
			t.Error(err)
		}
		if _, err := client.Create(ctx, c, settings("default", "old")); err == nil {
			t.Error("made anew what is there")
		}

		dry := log.TakeDry()
		want := []client.DryWrite{
			{Verb: "update", Resource: "configmaps", Object: "default/old", Detail: "data.a: 1 → 2"},
			{Verb: "patch", Resource: "configmaps", Object: "default/old", Detail: `{"data":{"b":"x`},
			{Verb: "create", Resource: "configmaps", Object: "default/made-", Detail: "for ConfigMap old"},
			{Verb: "delete", Resource: "configmaps", Object: "default/old", Detail: "Background"},
		}
		if len(dry) != len(want) {
			t.Fatalf("noted %+v", dry)
		}
		for i, w := range want {
			got := dry[i]
			if !strings.HasPrefix(got.Detail, w.Detail) || len(got.Detail) > 310 {
				t.Errorf("detail %q, want %q", got.Detail, w.Detail)
			}
			if got.Detail = w.Detail; got != w {
				t.Errorf("noted %+v, want %+v", got, w)
			}
		}
		if len(log.Take()) != 0 || len(log.TakeDry()) != 0 {
			t.Error("noted what was not stored, or twice")
		}
		if left := must(client.Get[corev1.ConfigMap](ctx, c.Live(), client.KeyOf(old))); left.Data["a"] != "1" {
			t.Errorf("stored %v", left.Data)
		}
	})
}
