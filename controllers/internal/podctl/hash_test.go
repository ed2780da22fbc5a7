package podctl

import (
	"encoding/json"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// readTemplate returns a template as kube-apiserver 1.37 stores it.
func readTemplate(t *testing.T) *corev1.PodTemplateSpec {
	t.Helper()
	data, err := os.ReadFile("testdata/template.json")
	if err != nil {
		t.Fatal(err)
	}
	var out corev1.PodTemplateSpec
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// The hashes were made by kube-controller-manager 1.37.2 from the same templates.
func TestTheHashIsThatOfOtherImplementations(t *testing.T) {
	web := readTemplate(t)
	if got := TemplateHash(web, nil); got != "774747949b" {
		t.Errorf("hash %s, want 774747949b", got)
	}
	aa := readTemplate(t)
	aa.Labels["app"] = "aa"
	if got := TemplateHash(aa, nil); got != "555d86f968" {
		t.Errorf("hash %s, want 555d86f968", got)
	}
	if got := TemplateHash(aa, new(int32(1))); got != "7d7c7bd497" {
		t.Errorf("hash after a collision %s, want 7d7c7bd497", got)
	}
}

func TestTheHashCountsCollisions(t *testing.T) {
	seen := map[string]bool{TemplateHash(readTemplate(t), nil): true}
	for n := range int32(5) {
		h := TemplateHash(readTemplate(t), &n)
		if seen[h] {
			t.Errorf("the hash after %d collisions has been there before", n)
		}
		seen[h] = true
	}
}
