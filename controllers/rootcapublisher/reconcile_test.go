package rootcapublisher

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDesired(t *testing.T) {
	with := func(data, note string) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: configMapName, ResourceVersion: "7"}}
		if data != "" {
			c.Data = map[string]string{"ca.crt": data}
		}
		if note != "" {
			c.Annotations = map[string]string{descriptionAnnotation: note}
		}
		return c
	}
	for _, tc := range []struct {
		name       string
		old        *corev1.ConfigMap
		write      bool
		annotation string
	}{
		{"missing is created", nil, true, description},
		{"equal is left alone", with("CA", description), false, ""},
		{"a foreign description is left alone", with("CA", "ours"), false, ""},
		{"a missing description is added", with("CA", ""), true, description},
		{"other data is replaced, and the description with it", with("OLD", "ours"), true, description},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := desired("shop", tc.old, "CA")
			if (got != nil) != tc.write {
				t.Fatalf("desired = %v, want a write: %t", got, tc.write)
			}
			if got == nil {
				return
			}
			if got.Data["ca.crt"] != "CA" || len(got.Data) != 1 || got.Annotations[descriptionAnnotation] != tc.annotation {
				t.Errorf("desired = %v %v, want the bundle and the description %q", got.Data, got.Annotations, tc.annotation)
			}
			if tc.old != nil && (got == tc.old || got.ResourceVersion != "7") {
				t.Error("an update must be a copy with the version that was read")
			}
		})
	}
}
