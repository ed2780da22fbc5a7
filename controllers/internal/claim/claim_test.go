package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/client"
)

var ownerKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}

// patches records what was sent, and answers with an error where one is planned for the object.
type patches struct {
	mu   sync.Mutex // guards sent
	sent map[string]string
	fail map[string]error
}

func (p *patches) patch(_ context.Context, pod *corev1.Pod, c client.Patch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent[pod.Name] = string(c.Data)
	return p.fail[pod.Name]
}

func newOwner(going bool) *corev1.Pod {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web-uid"}}
	if going {
		o.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)}
	}
	return o
}

type podOption func(*corev1.Pod)

func newPod(name string, opts ...podOption) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{"app": "web"},
	}}
	for _, o := range opts {
		o(p)
	}
	return p
}

func ownedBy(uid string) podOption {
	yes := true
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", UID: types.UID(uid), Controller: &yes}}
	}
}

func unlike(p *corev1.Pod)    { p.Labels = map[string]string{"app": "other"} }
func going(p *corev1.Pod)     { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)} }
func elsewhere(p *corev1.Pod) { p.Namespace = "other" }

func names(pods []*corev1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func TestClaimDecidesPerObject(t *testing.T) {
	const adopts, releases = "adopts", "releases"
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		going   bool // the owner
		claimed bool
		writes  string
	}{
		{name: "owned and matching is kept", pod: newPod("p", ownedBy("web-uid")), claimed: true},
		{name: "owned and matching is kept while the owner goes", pod: newPod("p", ownedBy("web-uid")), going: true, claimed: true},
		{name: "owned, matching and going is kept", pod: newPod("p", ownedBy("web-uid"), going), claimed: true},
		{name: "owned and not matching is released", pod: newPod("p", ownedBy("web-uid"), unlike), writes: releases},
		{name: "a going owner releases nothing", pod: newPod("p", ownedBy("web-uid"), unlike), going: true},
		{name: "an orphan that matches is adopted", pod: newPod("p"), claimed: true, writes: adopts},
		{name: "a going owner adopts nothing", pod: newPod("p"), going: true},
		{name: "an orphan that does not match is left", pod: newPod("p", unlike)},
		{name: "a going orphan is left", pod: newPod("p", going)},
		{name: "an orphan of another namespace is left", pod: newPod("p", elsewhere)},
		{name: "what another owner controls is left", pod: newPod("p", ownedBy("other-uid"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &patches{sent: map[string]string{}}
			claimer := Claimer[*corev1.Pod]{
				Owner: newOwner(c.going), Kind: ownerKind, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Patch: p.patch,
			}
			got, err := claimer.Claim(t.Context(), []*corev1.Pod{c.pod})
			if err != nil {
				t.Fatal(err)
			}
			if (len(got) == 1) != c.claimed {
				t.Errorf("claimed %v, want %v", names(got), c.claimed)
			}
			writes := ""
			switch body := p.sent["p"]; {
			case strings.Contains(body, `"$patch":"delete"`):
				writes = releases
			case body != "":
				writes = adopts
			}
			if writes != c.writes {
				t.Errorf("it %q the pod, want %q", writes, c.writes)
			}
		})
	}
}

func TestFilterNarrowsTheSelector(t *testing.T) {
	p := &patches{sent: map[string]string{}}
	c := Claimer[*corev1.Pod]{
		Owner: newOwner(false), Kind: ownerKind, Selector: labels.Everything(), Patch: p.patch,
		Filter: func(pod *corev1.Pod) bool { return pod.Name != "b" },
	}
	got, err := c.Claim(t.Context(), []*corev1.Pod{newPod("a", ownedBy("web-uid")), newPod("b", ownedBy("web-uid")), newPod("c")})
	if err != nil || !slices.Equal(names(got), []string{"a", "c"}) {
		t.Errorf("claimed %v, %v; want a and c", names(got), err)
	}
	if !strings.Contains(p.sent["b"], "delete") {
		t.Errorf("b was not released: %q", p.sent["b"])
	}
}

func TestPatchesNameTheObjectAndTheOwner(t *testing.T) {
	p := &patches{sent: map[string]string{}}
	c := Claimer[*corev1.Pod]{
		Owner: newOwner(false), Kind: ownerKind, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Patch: p.patch,
		Finalizers: []string{"batch.kubernetes.io/job-tracking"},
	}
	if _, err := c.Claim(t.Context(), []*corev1.Pod{newPod("in"), newPod("out", ownedBy("web-uid"), unlike)}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"in": `{"metadata":{"uid":"in-uid","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web",` +
			`"uid":"web-uid","controller":true,"blockOwnerDeletion":true}],"finalizers":["batch.kubernetes.io/job-tracking"]}}`,
		"out": `{"metadata":{"uid":"out-uid","ownerReferences":[{"$patch":"delete","uid":"web-uid"}],` +
			`"$deleteFromPrimitiveList/finalizers":["batch.kubernetes.io/job-tracking"]}}`,
	}
	for name, body := range want {
		if p.sent[name] != body {
			t.Errorf("patch of %s:\n got %s\nwant %s", name, p.sent[name], body)
		}
	}
}

func TestAnObjectThatIsGoneIsNoError(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x")
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "x", errors.New("changed"))
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		answer  error
		wantErr bool
	}{
		{"adoption of a pod that is gone", newPod("p"), gone, false},
		{"adoption of a pod that another owner took", newPod("p"), invalid, true},
		{"adoption that conflicts", newPod("p"), conflict, true},
		{"release of a pod that is gone", newPod("p", ownedBy("web-uid"), unlike), gone, false},
		{"release of a pod that was replaced", newPod("p", ownedBy("web-uid"), unlike), invalid, false},
		{"release that conflicts", newPod("p", ownedBy("web-uid"), unlike), conflict, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &patches{sent: map[string]string{}, fail: map[string]error{"p": c.answer}}
			claimer := Claimer[*corev1.Pod]{
				Owner: newOwner(false), Kind: ownerKind, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Patch: p.patch,
			}
			kept := newPod("kept", ownedBy("web-uid"))
			got, err := claimer.Claim(t.Context(), []*corev1.Pod{c.pod, kept})
			if (err != nil) != c.wantErr {
				t.Errorf("error %v, want one: %v", err, c.wantErr)
			}
			if err != nil && !errors.Is(err, c.answer) {
				t.Errorf("error %v does not carry the server's answer", err)
			}
			if !slices.Equal(names(got), []string{"kept"}) {
				t.Errorf("claimed %v, want only the pod that was there", names(got))
			}
		})
	}
}

func TestRecheckComesOnceAndBeforeAdoptions(t *testing.T) {
	p := &patches{sent: map[string]string{}}
	calls := 0
	c := Claimer[*corev1.Pod]{
		Owner: newOwner(false), Kind: ownerKind, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Patch: p.patch,
		Recheck: func(context.Context) error {
			calls++
			if len(p.sent) > 0 {
				t.Error("adopted before the owner was read")
			}
			return nil
		},
	}
	if _, err := c.Claim(t.Context(), []*corev1.Pod{newPod("a", ownedBy("web-uid"))}); err != nil || calls != 0 {
		t.Errorf("owner read %d times without an adoption (%v)", calls, err)
	}
	got, err := c.Claim(t.Context(), []*corev1.Pod{newPod("a"), newPod("b"), newPod("c")})
	if err != nil || len(got) != 3 || calls != 1 {
		t.Errorf("claimed %v (%v) with %d reads of the owner, want 3 pods with 1", names(got), err, calls)
	}
}

func TestRecheckThatRefusesStopsAdoptionsOnly(t *testing.T) {
	p := &patches{sent: map[string]string{}}
	c := Claimer[*corev1.Pod]{
		Owner: newOwner(false), Kind: ownerKind, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Patch: p.patch,
		Recheck: Recheck(newOwner(false), func(context.Context) (*corev1.Pod, error) { return newOwner(true), nil }),
	}
	got, err := c.Claim(t.Context(), []*corev1.Pod{newPod("orphan"), newPod("out", ownedBy("web-uid"), unlike), newPod("mine", ownedBy("web-uid"))})
	if err == nil || !slices.Equal(names(got), []string{"mine"}) {
		t.Errorf("claimed %v, %v; want mine and an error", names(got), err)
	}
	if p.sent["orphan"] != "" || p.sent["out"] == "" {
		t.Errorf("sent %v, want the release alone", p.sent)
	}
}

func TestRecheckRefusesANamesake(t *testing.T) {
	successor := newOwner(false)
	successor.UID = "successor"
	refused := errors.New("refused")
	for name, read := range map[string]func(context.Context) (*corev1.Pod, error){
		"replaced": func(context.Context) (*corev1.Pod, error) { return successor, nil },
		"going":    func(context.Context) (*corev1.Pod, error) { return newOwner(true), nil },
		"failing":  func(context.Context) (*corev1.Pod, error) { return nil, refused },
	} {
		if err := Recheck(newOwner(false), read)(t.Context()); err == nil {
			t.Errorf("an owner that is %s may adopt", name)
		}
	}
	if err := Recheck(newOwner(false), func(context.Context) (*corev1.Pod, error) { return newOwner(false), nil })(t.Context()); err != nil {
		t.Errorf("a live owner may not adopt: %v", err)
	}
}

func TestOnlyReleases(t *testing.T) {
	release, other := error(&releaseError{errors.New("no")}), errors.New("no")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, true},
		{release, true},
		{fmt.Errorf("claim: %w", errors.Join(release, release)), true},
		{other, false},
		{errors.Join(release, other), false},
		{fmt.Errorf("claim: %w", errors.Join(errors.Join(other), release)), false},
	} {
		if got := OnlyReleases(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
