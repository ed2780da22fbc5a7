package history

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/controllers/internal/podctl"
)

func owner(name string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: "default", Name: name, UID: "owner-uid", Generation: 1, Annotations: map[string]string{"team": "a"}}
}

// The names were made by kube-controller-manager 1.37.2 from the same templates. They depend on every byte of the data.
func TestNamesAreThoseOfOtherImplementations(t *testing.T) {
	for _, c := range []struct {
		format     Format
		template   string
		collisions *int32
		want       string
	}{
		{StatefulSets(), "plain", new(int32(0)), "65c69865ff"},
		{StatefulSets(), "plain", new(int32(1)), "65c69865fd"},
		{StatefulSets(), "rich", new(int32(0)), "7cfbc58cdb"},
		{DaemonSets(), "plain", nil, "774747949b"},
		{DaemonSets(), "plain", new(int32(1)), "656f8bbd77"},
		{DaemonSets(), "rich", nil, "84f5c94f69"},
	} {
		template := readTemplate(t, c.template)
		r := c.format.New(owner("web"), template, encode(t, template), 3, c.collisions)
		if r.Name != "web-"+c.want || r.Labels[c.format.HashLabel] != c.want {
			t.Errorf("%s of a %s: %s with labels %v, want hash %s", c.template, c.format.Owner.Kind, r.Name, r.Labels, c.want)
		}
	}
}

func TestANewRevisionIsWhatOthersMake(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		label  string
	}{
		"StatefulSet": {StatefulSets(), "controller.kubernetes.io/hash"},
		"DaemonSet":   {DaemonSets(), "controller-revision-hash"},
	} {
		template := readTemplate(t, "plain")
		o := owner("web")
		r := c.format.New(o, template, []byte("{}"), 7, nil)
		want := map[string]string{"app": "web", c.label: r.Labels[c.label]}
		if len(r.Labels) != 2 || r.Labels["app"] != want["app"] || r.Labels[c.label] == "" {
			t.Errorf("%s: labels %v", name, r.Labels)
		}
		if r.Annotations["team"] != "a" || len(r.Annotations) != 1 || r.Namespace != "default" || r.Revision != 7 || string(r.Data.Raw) != "{}" {
			t.Errorf("%s: %+v", name, r)
		}
		if ref := metav1.GetControllerOf(r); ref == nil || ref.Kind != name || ref.APIVersion != "apps/v1" || ref.UID != "owner-uid" || !*ref.BlockOwnerDeletion {
			t.Errorf("%s: owners %+v", name, r.OwnerReferences)
		}
		r.Annotations["x"], r.Labels["x"] = "y", "y"
		if o.Annotations["x"] != "" || template.Labels["x"] != "" {
			t.Errorf("%s: the revision shares maps with its owner", name)
		}
	}
}

func TestALongOwnersNameIsCut(t *testing.T) {
	r := StatefulSets().New(owner(strings.Repeat("a", 253)), &corev1.PodTemplateSpec{}, nil, 1, nil)
	if !strings.HasPrefix(r.Name, strings.Repeat("a", 223)+"-") || len(r.Name) > 253 {
		t.Errorf("name %s", r.Name)
	}
}

// Upstream does not truncate, and so never rolls out a DaemonSet whose name is too long.
func TestALongNameOfADaemonSetIsCutOnlyIfItHasTo(t *testing.T) {
	template := &corev1.PodTemplateSpec{}
	hash := podctl.TemplateHash(template, nil)
	room := 253 - len("-") - len(hash)
	for name, want := range map[string]string{
		strings.Repeat("a", 230):                   strings.Repeat("a", 230),
		strings.Repeat("a", room):                  strings.Repeat("a", room),
		strings.Repeat("a", 253):                   strings.Repeat("a", room),
		strings.Repeat("a", room-1) + ".b" + "bbb": strings.Repeat("a", room-1),
	} {
		if r := DaemonSets().New(owner(name), template, nil, 1, nil); r.Name != want+"-"+hash {
			t.Errorf("name of %d characters for one of %d: %s", len(r.Name), len(name), r.Name)
		}
	}
}

func names(revisions []*appsv1.ControllerRevision) string {
	var out []string
	for _, r := range revisions {
		out = append(out, r.Name)
	}
	return strings.Join(out, " ")
}

func TestRevisionsAreSortedByNumberAgeAndName(t *testing.T) {
	older, newer := metav1.Unix(100, 0), metav1.Unix(200, 0)
	at := func(name string, number int64, born metav1.Time) *appsv1.ControllerRevision {
		r := stored(name, number, "")
		r.CreationTimestamp = born
		return r
	}
	all := []*appsv1.ControllerRevision{at("e", 2, newer), at("d", 2, older), at("c", 2, older), at("b", 1, newer), at("a", 3, older)}
	for range len(all) {
		all = append(all[1:], all[0])
		sorted := slices.Clone(all)
		if Sort(sorted); names(sorted) != "b c d e a" {
			t.Errorf("sorted %s", names(sorted))
		}
		if n := Next(all); n != 4 {
			t.Errorf("next is %d, want 4", n)
		}
	}
	if n := Next(nil); n != 1 {
		t.Errorf("the first is %d, want 1", n)
	}
}

func TestTheOldestIdleRevisionsAreSurplus(t *testing.T) {
	all := []*appsv1.ControllerRevision{stored("a", 1, ""), stored("b", 2, ""), stored("c", 3, ""), stored("d", 4, ""), stored("e", 5, "")}
	for _, c := range []struct {
		used             string
		limit            int32
		stateful, daemon string
	}{
		{"e", 10, "", ""},
		{"e", 2, "a b", "a b c"},
		{"a e", 2, "b", "b c d"},
		{"a b c d e", 0, "", ""},
		{"", 0, "a b c d e", "a b c d e"},
		{"", -1, "", ""},
		{"a b", 4, "", "c"},
	} {
		used := func(r *appsv1.ControllerRevision) bool { return strings.Contains(c.used, r.Name) }
		if got := names(StatefulSets().Surplus(all, c.limit, used)); got != c.stateful {
			t.Errorf("limit %d with %q in use by a StatefulSet: %q, want %q", c.limit, c.used, got, c.stateful)
		}
		if got := names(DaemonSets().Surplus(all, c.limit, used)); got != c.daemon {
			t.Errorf("limit %d with %q in use by a DaemonSet: %q, want %q", c.limit, c.used, got, c.daemon)
		}
	}
}
