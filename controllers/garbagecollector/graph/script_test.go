package graph

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Scripts in testdata are lists of steps, each followed by the effects that it has to have, in any order:
//
//	observe Pod default/a owner=ConfigMap:c owner=ConfigMap:d! deleting foreground
//	> check ConfigMap default/c virtual
//
// The UID of an object is its name unless uid= says otherwise; an owner is KIND:NAME or KIND:NAME:UID, and a ! at its
// end makes it wait for the object. A namespace that is left out is the cluster's.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("find scripts: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g := New()
	var got, want []string
	step, line := "start", 0
	check := func() {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s\n  got  %s\n  want %s", file, step, strings.Join(got, "\n       "), strings.Join(want, "\n       "))
		}
		verify(t, g)
	}
	for in := bufio.NewScanner(f); in.Scan(); {
		line++
		text := strings.TrimSpace(in.Text())
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case strings.HasPrefix(text, ">"):
			want = append(want, strings.TrimSpace(text[1:]))
		default:
			check()
			step, got, want = fmt.Sprintf("line %d: %s", line, text), perform(t, g, text), nil
		}
	}
	check()
}

func kindNamed(name string) Kind {
	switch name {
	case "Pod", "ConfigMap", "PersistentVolume", "Node":
		return KindOf(schema.GroupVersionKind{Version: "v1", Kind: name})
	case "Widget2":
		return KindOf(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"})
	}
	return KindOf(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: name})
}

// parse reads the words of a step after its verb.
func parse(t *testing.T, words []string) (Kind, *metav1.PartialObjectMetadata) {
	t.Helper()
	obj := &metav1.PartialObjectMetadata{}
	obj.Namespace, obj.Name, _ = strings.Cut(words[1], "/")
	if obj.Name == "" {
		obj.Namespace, obj.Name = "", obj.Namespace
	}
	obj.UID = types.UID(obj.Name)
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "uid":
			obj.UID = types.UID(value)
		case "owner":
			obj.OwnerReferences = append(obj.OwnerReferences, ownerNamed(value))
		case "deleting":
			obj.DeletionTimestamp = &metav1.Time{}
		case "foreground":
			obj.Finalizers = append(obj.Finalizers, metav1.FinalizerDeleteDependents)
		case "orphan":
			obj.Finalizers = append(obj.Finalizers, metav1.FinalizerOrphanDependents)
		default:
			t.Fatalf("unknown word %q", w)
		}
	}
	return kindNamed(words[0]), obj
}

func ownerNamed(s string) metav1.OwnerReference {
	s, blocks := strings.CutSuffix(s, "!")
	parts := strings.Split(s, ":")
	gvk := kindNamed(parts[0]).GVK()
	ref := metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: parts[1], UID: types.UID(parts[len(parts)-1]),
	}
	if blocks {
		ref.BlockOwnerDeletion = &blocks
	}
	return ref
}

func perform(t *testing.T, g *Graph, step string) []string {
	t.Helper()
	words := strings.Fields(step)
	kind, obj := parse(t, words[1:])
	var e Effects
	switch words[0] {
	case "observe":
		e = g.Observe(kind, obj)
	case "remove":
		e = g.Remove(kind, obj)
	case "doubt":
		e = g.Doubt(obj)
	case "absent":
		e = g.Absent(RefOf(kind, obj))
	case "forget":
		e = g.Forget(kind, time.Minute)
	case "view":
		return []string{describe(g, obj.UID)}
	case "pending":
		return texts("pending", g.Pending(obj.UID))
	case "deadlocked":
		return []string{fmt.Sprint(g.Deadlocked(obj.UID))}
	default:
		t.Fatalf("unknown step %q", step)
	}
	out := slices.Concat(texts("check", e.Check), texts("gone", e.Gone), texts("orphan", e.Orphan))
	for _, p := range e.Later {
		out = append(out, fmt.Sprintf("later %s %s", text(p.Ref), p.After))
	}
	for _, m := range e.Misplaced {
		out = append(out, fmt.Sprintf("misplaced %s owner %s", text(m.Dependent), text(m.Owner)))
	}
	return out
}

func texts(verb string, refs []Ref) []string {
	var out []string
	for _, r := range refs {
		out = append(out, verb+" "+text(r))
	}
	return out
}

func text(r Ref) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", r.Kind.GVK().Kind, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")))
}

func describe(g *Graph, uid types.UID) string {
	v, ok := g.View(uid)
	if !ok {
		return "nothing"
	}
	out := fmt.Sprintf("%s dependents=%d blockers=%d", text(v.Ref), v.Dependents, v.Blockers)
	for _, s := range []struct {
		name string
		on   bool
	}{{"virtual", v.Virtual}, {"deleting", v.Deleting}, {"foreground", v.Foreground}} {
		if s.on {
			out += " " + s.name
		}
	}
	return out
}

// verify checks what holds in every graph: both ends of each edge agree, blockers are counted right, and a virtual node
// is there for somebody's sake.
func verify(t *testing.T, g *Graph) {
	t.Helper()
	for uid, n := range g.nodes {
		if n.ref.UID != uid {
			t.Errorf("node %s is filed under %s", n.ref, uid)
		}
		blockers := 0
		for d, blocks := range n.dependents {
			refers, wants := d.refersTo(uid)
			if !refers || wants != blocks || g.nodes[d.ref.UID] != d {
				t.Errorf("%s has dependent %s: refers %t, blocks %t, recorded as %t", n.ref, d.ref, refers, wants, blocks)
			}
			if blocks {
				blockers++
			}
		}
		if blockers != n.blockers {
			t.Errorf("%s counts %d blockers and has %d", n.ref, n.blockers, blockers)
		}
		for _, o := range n.owners {
			if p := g.nodes[o.uid]; p == nil || !p.owns(n) {
				t.Errorf("%s refers to %s, which does not know", n.ref, o.uid)
			}
		}
		if (n.virtual || n.absent) && len(n.dependents)+len(n.owners) == 0 {
			t.Errorf("%s does not exist and is there for nobody", n.ref)
		}
		if n.absent && (n.virtual || n.deleting || len(n.owners) > 0) {
			t.Errorf("%s does not exist and is still said to be something", n.ref)
		}
	}
}
