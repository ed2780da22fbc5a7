package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	// As the server's answers are decoded.
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

const podInOneCluster = `
apiVersion: v1
kind: Pod
metadata:
  name: web-abcde
  generateName: web-
  uid: 11111111-2222-3333-4444-555555555555
  resourceVersion: "7"
  generation: 1
  creationTimestamp: "2026-01-02T03:04:05Z"
spec:
  nodeName: node-1
  volumes: [{name: kube-api-access-x2x4z}]
status:
  podIP: 10.1.2.3
  observedGeneration: 1
  conditions: [{type: Ready, lastTransitionTime: "2026-01-02T03:04:05Z"}, {type: Initialized}]
`

const podInTheOther = `
apiVersion: v1
kind: Pod
metadata:
  name: web-vwxyz
  generateName: web-
  uid: 99999999-2222-3333-4444-555555555555
  resourceVersion: "9999"
  generation: 4
  creationTimestamp: "2026-02-02T03:04:05Z"
spec:
  nodeName: node-2
  volumes: [{name: kube-api-access-9kjbc}]
status:
  podIP: 10.1.200.30
  observedGeneration: 4
  conditions: [{type: Initialized}, {type: Ready, lastTransitionTime: "2026-02-02T03:04:05Z"}]
`

func normalized(t *testing.T, text string) string {
	t.Helper()
	u, names := object(t, text), newAliases()
	names.learn(u)
	return normalize("pods", u, names)
}

func TestWhatDiffersByItsNatureIsEqual(t *testing.T) {
	a, b := normalized(t, podInOneCluster), normalized(t, podInTheOther)
	if a != b {
		t.Errorf("%s\n%s", a, b)
	}
	if !strings.Contains(a, "name: web-*") {
		t.Errorf("no alias for the name:\n%s", a)
	}
}

func TestWhatMattersIsDifferent(t *testing.T) {
	for _, change := range [][2]string{
		{"observedGeneration: 4", "observedGeneration: 3"},
		{"{type: Initialized}", "{type: Initialized, status: Unknown}"},
		{"generateName: web-", "generateName: db-"},
		{"podIP: 10.1.200.30", "podIP: \"\""},
	} {
		other := strings.Replace(podInTheOther, change[0], change[1], 1)
		if normalized(t, podInOneCluster) == normalized(t, other) {
			t.Errorf("%v makes no difference", change)
		}
	}
}

// The names of a StatefulSet's pods are their own, and upstream's order of their volumes is that of a map.
func TestPodsOfStatefulSetsKeepTheirNames(t *testing.T) {
	pod := func(name, volumes string) string {
		return normalized(t, "kind: Pod\nmetadata: {name: "+name+", generateName: db-, ownerReferences: [{kind: StatefulSet, name: db}]}\nspec: {volumes: "+volumes+"}\n")
	}
	if a, b := pod("db-0", "[{name: a, persistentVolumeClaim: {claimName: c}}, {name: b}]"), pod("db-0", "[{name: b}, {name: a, persistentVolumeClaim: {claimName: c}}]"); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	if pod("db-0", "[]") == pod("db-1", "[]") {
		t.Error("two ordinals are equal")
	}
}

// Nodes of a DaemonSet's program that are alike are told apart by their pods alone.
func TestAlikeNodesDifferByTheirPods(t *testing.T) {
	on := func(node, hash string) *unstructured.Unstructured {
		return object(t, "kind: Pod\nmetadata: {name: p, labels: {controller-revision-hash: "+hash+"}, ownerReferences: [{kind: DaemonSet, name: ds}]}\nspec: {nodeName: daemonset-3-"+node+"}\n")
	}
	beside := layout([]*unstructured.Unstructured{on("x1", "old"), on("x1", "new"), on("x2", "old")})
	if !slices.Equal(beside, layout([]*unstructured.Unstructured{on("x2", "old"), on("x2", "new"), on("x1", "old")})) {
		t.Error("the numbers of nodes make a difference")
	}
	if slices.Equal(beside, layout([]*unstructured.Unstructured{on("x1", "old"), on("x1", "old"), on("x2", "new")})) {
		t.Error("which pods share a node makes no difference")
	}
}

func TestObjectsAreMatchedWithTheirClosest(t *testing.T) {
	a := []string{"kind: A\nx: 1\ny: 1", "kind: A\nx: 2\ny: 2", "kind: B\nz: 1"}
	b := []string{"kind: A\nx: 2\ny: 3", "kind: A\nx: 1\ny: 1", "kind: A\nx: 9\ny: 9"}
	got := compare(a, b, "one", "two")
	for _, want := range []string{" x: 2\n-y: 2\n+y: 3\n", "only with one:\nkind: B", "only with two:\nkind: A\nx: 9"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := compare(a, slices.Clone(a), "one", "two"); got != "" {
		t.Errorf("equal lists differ: %s", got)
	}
}

// A program is drawn for two clusters from one seed, and again to look at what went wrong.
func TestProgramsDependOnTheSeedAlone(t *testing.T) {
	text := func(p program) (all string) {
		for _, s := range p.steps {
			all += s.text + "\n"
		}
		return all
	}
	for name, generate := range generators() {
		for seed := range uint64(20) {
			one, two := generate(rand.New(rand.NewPCG(seed, 0))), generate(rand.New(rand.NewPCG(seed, 0)))
			if text(one) != text(two) {
				t.Errorf("%s, seed %d: %s\n%s", name, seed, text(one), text(two))
			}
			if len(one.steps) == 0 {
				t.Errorf("%s, seed %d: no steps", name, seed)
			}
		}
	}
}
