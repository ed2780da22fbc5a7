package history

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// readTemplate returns a template of testdata: plain and rich are as kube-apiserver 1.37 stores them, rich-undefaulted
// is what rich was made from.
func readTemplate(t testing.TB, name string) *corev1.PodTemplateSpec {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var out corev1.PodTemplateSpec
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func encode(t testing.TB, template *corev1.PodTemplateSpec) []byte {
	t.Helper()
	data, err := Encode(template)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func stored(name string, number int64, data string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Revision:   number, Data: runtime.RawExtension{Raw: []byte(data)},
	}
}

func TestDataIsAPatchWithSortedKeys(t *testing.T) {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"b": "<&>", "a": "1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(1 << 60))},
	}
	want := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"1","b":"\u003c\u0026\u003e"}},` +
		`"spec":{"containers":[{"image":"i","name":"c","resources":{}}],"terminationGracePeriodSeconds":1152921504606847000}}}}`
	if got := string(encode(t, template)); got != want {
		t.Errorf("data\n%s, want\n%s", got, want)
	}
}

// kube-controller-manager writes the numbers of a StatefulSet's template as floating-point ones, and those of a
// DaemonSet's as they are.
func TestBigNumbersAreWrittenAsOthersDo(t *testing.T) {
	template := readTemplate(t, "plain")
	template.Spec.TerminationGracePeriodSeconds = new(int64(1<<53 + 1))
	for want, w := range map[string]*Wanted{
		`"terminationGracePeriodSeconds":9007199254740992,`: Want(owner("web"), template),
		`"terminationGracePeriodSeconds":9007199254740993,`: WantWhole(owner("web"), template),
	} {
		data, err := w.Data()
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("data %s (%v), want %s", data, err, want)
		}
		if same, err := new(Comparer).Same(w, stored("r", 1, string(data))); err != nil || !same {
			t.Errorf("its own revision is the same: %v (%v)", same, err)
		}
	}
}

func TestARevisionRestoresItsTemplate(t *testing.T) {
	for _, name := range []string{"plain", "rich", "rich-undefaulted"} {
		template := readTemplate(t, name)
		got, err := Template(stored("r", 1, string(encode(t, template))), readTemplate(t, "plain"))
		if err != nil {
			t.Fatal(err)
		}
		if !apiequality.Semantic.DeepEqual(got, template) {
			t.Errorf("%s: restored %+v", name, got)
		}
	}
}

func TestAPatchOfAnotherFormIsAppliedToThePresentTemplate(t *testing.T) {
	present := readTemplate(t, "plain")
	got, err := Template(stored("r", 1, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"other"}]}}}}`), present)
	if err != nil {
		t.Fatal(err)
	}
	want := present.DeepCopy()
	want.Spec.Containers[0].Image = "other"
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("restored %+v", got)
	}
	if present.Spec.Containers[0].Image == "other" {
		t.Error("restoring changed the present template")
	}
}

func TestDataThatIsNoPatchIsAnError(t *testing.T) {
	for _, data := range []string{"", "x", `{"spec":{"template":{"spec":{"containers":"x"}}}}`, `{"spec":{"template":{"$patch":"replace","spec":7}}}`} {
		_, err := Template(stored("r", 1, data), readTemplate(t, "plain"))
		if err == nil || !strings.Contains(err.Error(), "revision default/r") {
			t.Errorf("%q: error %v does not name the revision", data, err)
		}
	}
}

func TestDefaultsAreThoseOfTheServer(t *testing.T) {
	got := readTemplate(t, "rich-undefaulted")
	setDefaults(got)
	if a, b := string(encode(t, got)), string(encode(t, readTemplate(t, "rich"))); a != b {
		t.Errorf("completed\n%s, want\n%s", a, b)
	}
	again := got.DeepCopy()
	if setDefaults(again); !apiequality.Semantic.DeepEqual(got, again) {
		t.Error("completing twice is not completing once")
	}
}

func TestPullPolicyFollowsTheTag(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]corev1.PullPolicy{
		"a": corev1.PullAlways, "a:latest": corev1.PullAlways, "r:5000/a": corev1.PullAlways, "r:5000/a/b:latest": corev1.PullAlways,
		"a:latest" + digest: corev1.PullAlways, "a:1": corev1.PullIfNotPresent, "r:5000/a:1": corev1.PullIfNotPresent,
		"a" + digest: corev1.PullIfNotPresent, "r:5000/a" + digest: corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
