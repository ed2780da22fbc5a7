package garbagecollector

import (
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestDecide(t *testing.T) {
	uids := func(s ...types.UID) []types.UID { return s }
	for _, c := range []struct {
		name       string
		owners     owners
		finalizers []string
		dependents int
		want       plan
	}{
		{"all owners exist", owners{solid: uids("s")}, nil, 3, plan{}},
		{"one exists, one does not", owners{solid: uids("s"), dangling: uids("d")}, nil, 3, plan{action: strip, strip: uids("d")}},
		{"one exists, one waits", owners{solid: uids("s"), waiting: uids("w")}, nil, 3, plan{action: strip, strip: uids("w")}},
		{"one of each", owners{solid: uids("s"), waiting: uids("w"), dangling: uids("d")}, nil, 3, plan{action: strip, strip: uids("d", "w")}},
		{"none exists", owners{dangling: uids("d")}, nil, 3, plan{action: remove, policy: metav1.DeletePropagationBackground}},
		{"none exists, to be orphaned", owners{dangling: uids("d")}, []string{"x", "orphan"}, 3, plan{action: remove, policy: metav1.DeletePropagationOrphan}},
		{"none exists, to be deleted in the foreground", owners{dangling: uids("d")}, []string{"foregroundDeletion"}, 0, plan{action: remove, policy: metav1.DeletePropagationForeground}},
		{"one waits, and it has dependents", owners{waiting: uids("w"), dangling: uids("d")}, []string{"orphan"}, 1, plan{action: remove, policy: metav1.DeletePropagationForeground, waits: true}},
		{"one waits, and it has none", owners{waiting: uids("w")}, nil, 0, plan{action: remove, policy: metav1.DeletePropagationBackground}},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := &metav1.ObjectMeta{OwnerReferences: make([]metav1.OwnerReference, 1), Finalizers: c.finalizers}
			if got := decide(obj, c.owners, c.dependents); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	if got := decide(&metav1.ObjectMeta{}, owners{}, 5); !reflect.DeepEqual(got, plan{}) {
		t.Errorf("an object without owners: %+v", got)
	}
}

func TestEditsOfOwnerReferences(t *testing.T) {
	yes := true
	refs := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "1", BlockOwnerDeletion: &yes, Controller: &yes},
		{APIVersion: "v1", Kind: "Pod", Name: "b", UID: "2"},
		{APIVersion: "v1", Kind: "Pod", Name: "c", UID: "3"},
	}
	for _, c := range []struct {
		name              string
		edit              edit
		merged, strategic string
	}{
		{"without", without([]types.UID{"1", "3"}),
			`[{"apiVersion":"v1","kind":"Pod","name":"b","uid":"2"}]`,
			`[{"$patch":"delete","uid":"1"},{"$patch":"delete","uid":"3"}]`},
		{"without all", without([]types.UID{"1", "2", "3"}), `[]`,
			`[{"$patch":"delete","uid":"1"},{"$patch":"delete","uid":"2"},{"$patch":"delete","uid":"3"}]`},
		{"unblocking", unblocking(),
			`[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"1","controller":true,"blockOwnerDeletion":false},{"apiVersion":"v1","kind":"Pod","name":"b","uid":"2"},{"apiVersion":"v1","kind":"Pod","name":"c","uid":"3"}]`,
			`[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"1","controller":true,"blockOwnerDeletion":false}]`},
	} {
		before, _ := json.Marshal(refs)
		merged, _ := json.Marshal(c.edit.merged(refs))
		strategic, _ := json.Marshal(c.edit.strategic(refs))
		if string(merged) != c.merged || string(strategic) != c.strategic {
			t.Errorf("%s:\nmerged    %s\nstrategic %s", c.name, merged, strategic)
		}
		if after, _ := json.Marshal(refs); string(after) != string(before) {
			t.Errorf("%s changed the object's own references", c.name)
		}
	}
}

func TestWhatIsKnownOfAWaitingOwnerEndsWithTheNextVersion(t *testing.T) {
	k := newKnowledge()
	ref := keyed("o")
	if k.waiting(ref, "5") || !k.goneSince(ref).IsZero() {
		t.Error("something is known of an owner that nobody has read")
	}
	k.noteWaiting(ref, "7")
	for version, want := range map[string]bool{"6": true, "7": true, "8": false} {
		if got := k.waiting(ref, version); got != want {
			t.Errorf("read waiting at 7, seen at %s: waiting %t, want %t", version, got, want)
		}
	}
	k.noteGone(ref)
	if k.goneSince(ref).IsZero() || k.waiting(ref, "6") {
		t.Error("an owner that is gone does not count as gone")
	}
}
