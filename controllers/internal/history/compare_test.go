package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// rewrite returns the data of a revision with a change, as another version would have written it.
func rewrite(t *testing.T, data []byte, change func(template map[string]any)) string {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	change(doc["spec"].(map[string]any)["template"].(map[string]any))
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func container(template map[string]any) map[string]any {
	return template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

// kubernetes/kubernetes#134773 is the first of these: it replaced every pod of every set on an upgrade.
func TestRevisionsAreComparedByMeaning(t *testing.T) {
	for _, c := range []struct {
		name   string
		same   bool
		change func(template map[string]any)
	}{
		{"nothing", true, func(map[string]any) {}},
		{"a time that 1.33 wrote as null", true, func(m map[string]any) { m["metadata"].(map[string]any)["creationTimestamp"] = nil }},
		{"nulls and empties", true, func(m map[string]any) {
			m["spec"].(map[string]any)["affinity"] = nil
			container(m)["resources"].(map[string]any)["claims"] = []any{}
			container(m)["args"] = nil
		}},
		{"a default that the writer did not know", true, func(m map[string]any) { delete(container(m), "terminationMessagePolicy") }},
		{"a default deep inside", true, func(m map[string]any) {
			delete(container(m)["readinessProbe"].(map[string]any)["httpGet"].(map[string]any), "scheme")
		}},
		{"a field that is no more", true, func(m map[string]any) { m["spec"].(map[string]any)["wasOnceHere"] = "x" }},
		{"a quantity's spelling", true, func(m map[string]any) {
			container(m)["resources"].(map[string]any)["limits"].(map[string]any)["memory"] = "1.5Gi"
		}},
		{"an image", false, func(m map[string]any) { container(m)["image"] = "img:2" }},
		{"no image", false, func(m map[string]any) { delete(container(m), "image") }},
		{"a label", false, func(m map[string]any) { m["metadata"].(map[string]any)["labels"].(map[string]any)["x"] = "y" }},
		{"a default's field with another value", false, func(m map[string]any) { container(m)["terminationMessagePath"] = "/x" }},
		{"a value for a field without a default", false, func(m map[string]any) { m["spec"].(map[string]any)["nodeName"] = "n" }},
		{"a number", false, func(m map[string]any) { m["spec"].(map[string]any)["terminationGracePeriodSeconds"] = 1 }},
		{"no grace period, where the default is another one", false, func(m map[string]any) {
			delete(m["spec"].(map[string]any), "terminationGracePeriodSeconds")
		}},
		{"an order that counts", false, func(m map[string]any) {
			env := container(m)["env"].([]any)
			env[0], env[1] = env[1], env[0]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			template := readTemplate(t, "plain")
			revision := stored("r", 1, rewrite(t, encode(t, template), c.change))
			var comparer Comparer
			for _, again := range []string{"asked", "asked again"} {
				if same, err := comparer.Same(Want(owner("web"), template), revision); err != nil || same != c.same {
					t.Errorf("%s: same is %v (%v), want %v", again, same, err, c.same)
				}
			}
		})
	}
}

func TestKeyOrderAndSpaceMeanNothing(t *testing.T) {
	template := readTemplate(t, "plain")
	plain, err := json.MarshalIndent(template, "", "  ") // fields in the order of the types
	if err != nil {
		t.Fatal(err)
	}
	revision := stored("r", 1, `{"spec": {"template": {`+strings.TrimPrefix(string(plain), "{")[:len(plain)-2]+`, "$patch": "replace"}}}`)
	if same, err := new(Comparer).Same(Want(owner("web"), template), revision); err != nil || !same {
		t.Errorf("same is %v (%v)", same, err)
	}
}

func TestARevisionThatIsNotOfATemplateIsNotTheSame(t *testing.T) {
	template := readTemplate(t, "plain")
	whole := `{"spec":{"template":{"metadata":{"labels":{"app":"web"}}}}}` // changes nothing
	for _, data := range []string{"", "{", "null", `{"x":1}`, whole, `{"spec":{"template":{"$patch":"replace","spec":7}}}`} {
		same, err := new(Comparer).Same(Want(owner("web"), template), stored("r", 1, data))
		if err != nil || same {
			t.Errorf("%q: same is %v (%v)", data, same, err)
		}
	}
}

func TestFindPrefersTheLastThenTheSameDataThenTheSameMeaning(t *testing.T) {
	template := readTemplate(t, "plain")
	data := string(encode(t, template))
	alike := rewrite(t, []byte(data), func(m map[string]any) { m["metadata"].(map[string]any)["creationTimestamp"] = nil })
	other := rewrite(t, []byte(data), func(m map[string]any) { container(m)["image"] = "img:2" })
	for _, c := range []struct {
		name, want string
		data       []string // of the revisions 1, 2, ...
	}{
		{"none", "", nil},
		{"no other", "", []string{other, other}},
		{"the last", "2", []string{other, data}},
		{"the last, by meaning, though an earlier one has the data", "2", []string{data, alike}},
		{"an earlier one", "1", []string{data, other}},
		{"the later of two", "2", []string{data, data, other}},
		{"the data before the meaning", "1", []string{data, alike, other}},
		{"the meaning if nothing has the data", "2", []string{alike, alike, other}},
		{"past broken ones", "1", []string{alike, "{", "x"}},
	} {
		var sorted []*appsv1.ControllerRevision
		for i, d := range c.data {
			sorted = append(sorted, stored(fmt.Sprint(i+1), int64(i+1), d))
		}
		got, err := new(Comparer).Find(Want(owner("web"), template), sorted)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		if got != nil {
			name = got.Name
		}
		if name != c.want {
			t.Errorf("%s: found %q, want %q", c.name, name, c.want)
		}
	}
}

func TestAnAnswerIsForgottenOnceItMayHaveChanged(t *testing.T) {
	template := readTemplate(t, "plain")
	revision := stored("r", 1, string(encode(t, template)))
	var comparer Comparer
	ask := func(o *appsv1.StatefulSet, p *corev1.PodTemplateSpec, r *appsv1.ControllerRevision) bool {
		t.Helper()
		same, err := comparer.Same(Want(o, p), r)
		if err != nil {
			t.Fatal(err)
		}
		return same
	}
	set := &appsv1.StatefulSet{ObjectMeta: *owner("web")}
	if !ask(set, template, revision) {
		t.Fatal("the template is not found")
	}
	changed := template.DeepCopy()
	changed.Spec.Containers[0].Image = "img:2"
	next := set.DeepCopy()
	next.Generation++
	if ask(next, changed, revision) {
		t.Error("the answer for the last generation was given for the next")
	}
	other := stored("r", 1, string(encode(t, changed)))
	other.UID = "another"
	if ask(set, template, other) {
		t.Error("the answer for a revision was given for another of its name")
	}
}

func TestRememberedAnswersCostNoEncodingAndAreBounded(t *testing.T) {
	template := readTemplate(t, "plain")
	revision := stored("r", 1, string(encode(t, template)))
	var comparer Comparer
	if same, err := comparer.Same(Want(owner("web"), template), revision); err != nil || !same {
		t.Fatal(same, err)
	}
	w := Want(owner("web"), template)
	if allocs := testing.AllocsPerRun(100, func() { _, _ = comparer.Find(w, []*appsv1.ControllerRevision{revision}) }); allocs > 0 || w.data != nil {
		t.Errorf("%v allocations for an answer that is known", allocs)
	}
	for i := range 3 * maxRecent {
		comparer.remember(comparison{generation: int64(i)}, true)
		if i%100 == 0 { // keeps it recent
			comparer.recall(comparison{w.owner.GetUID(), 1, revision.UID, revision.ResourceVersion})
		}
	}
	if n := len(comparer.recent) + len(comparer.older); n > 2*maxRecent {
		t.Errorf("%d answers are kept", n)
	}
	if _, known := comparer.recall(comparison{w.owner.GetUID(), 1, revision.UID, revision.ResourceVersion}); !known {
		t.Error("an answer in use was forgotten")
	}
	if _, known := comparer.recall(comparison{generation: 0}); known {
		t.Error("an answer out of use was kept")
	}
}
