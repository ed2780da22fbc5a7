package deployment

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
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

func TestTemplatesAreComparedByMeaning(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.PodTemplateSpec)
		same   bool
	}{
		"nothing":               {func(*corev1.PodTemplateSpec) {}, true},
		"the hash label":        {func(p *corev1.PodTemplateSpec) { p.Labels[hashLabel] = "abc" }, true},
		"a quantity's spelling": {func(p *corev1.PodTemplateSpec) { setMemory(p, "1.5Gi") }, true},
		"empty for absent":      {func(p *corev1.PodTemplateSpec) { p.Spec.InitContainers = []corev1.Container{} }, true},
		"a quantity":            {func(p *corev1.PodTemplateSpec) { setMemory(p, "1500Mi") }, false},
		"an image":              {func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "img:2" }, false},
		"a container more": {func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d"})
		}, false},
		"a variable":      {func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Env[0].Value = "z" }, false},
		"an annotation":   {func(p *corev1.PodTemplateSpec) { p.Annotations["a"] = "2" }, false},
		"a label":         {func(p *corev1.PodTemplateSpec) { p.Labels["app"] = "other" }, false},
		"a label more":    {func(p *corev1.PodTemplateSpec) { p.Labels["tier"] = "front" }, false},
		"a label renamed": {func(p *corev1.PodTemplateSpec) { p.Labels = map[string]string{"name": "web"} }, false},
		"a finalizer":     {func(p *corev1.PodTemplateSpec) { p.Finalizers = []string{"x"} }, false},
	} {
		a, b := readTemplate(t), readTemplate(t)
		c.change(b)
		if sameTemplate(a, b) != c.same || sameTemplate(b, a) != c.same {
			t.Errorf("%s changed: same is %v, want %v", name, !c.same, c.same)
		}
	}
	a, b := readTemplate(t), readTemplate(t)
	b.Labels[hashLabel] = "abc"
	if sameTemplate(a, b); b.Labels[hashLabel] != "abc" {
		t.Error("comparing changed the template")
	}
}

func setMemory(p *corev1.PodTemplateSpec, text string) {
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse(text)
}

func TestNamesFitAndKeepTheHash(t *testing.T) {
	for name, c := range map[string]struct{ deployment, want string }{
		"short":            {"web", "web-774747949b"},
		"242 characters":   {strings.Repeat("a", 242), strings.Repeat("a", 242) + "-774747949b"},
		"245 characters":   {strings.Repeat("a", 245), strings.Repeat("a", 242) + "-774747949b"},
		"253 characters":   {strings.Repeat("a", 253), strings.Repeat("a", 242) + "-774747949b"},
		"cut behind a dot": {strings.Repeat("a", 241) + "." + "bbbb", strings.Repeat("a", 241) + "-774747949b"},
	} {
		got := setName(c.deployment, "774747949b")
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if len(got) > 253 {
			t.Errorf("%s: %d characters", name, len(got))
		}
		if problems := validation.IsDNS1123Subdomain(strings.ReplaceAll(got, strings.Repeat("a", 60), "a")); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
