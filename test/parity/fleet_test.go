package main

import (
	"slices"
	"testing"
)

// What a program makes outside of its namespace is known by its name.
func TestNamesLeadToPrograms(t *testing.T) {
	for name := range generators() {
		if got := programName.FindString(name + "-12"); got != name+"-12" {
			t.Errorf("a program of generator %s is known as %q", name, got)
		}
	}
	for name, want := range map[string]string{
		"node-1": "node-1", "node-12-a": "node-12", "node-1-2": "node-1", "owner-3-o4": "owner-3", "default": "", "kube-node-lease": "",
	} {
		if got := programName.FindString(name); got != want {
			t.Errorf("%s belongs to %q, want %q", name, got, want)
		}
	}
}

func TestTextsAreFilled(t *testing.T) {
	s := &subject{namespace: "owner-3", uids: map[string]string{"realms/owner-3-o1": "1-2-3"}}
	for text, want := range map[string]string{
		"$self-a": "owner-3-a", "$uid(realms/$self-o1)": "1-2-3", "$uid(pods/never)": "00000000-0000-4000-8000-000000000000", "as it is": "as it is",
	} {
		if got := s.fill(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

func TestCancelledEvictionsCountUnlessThePodIsEvicted(t *testing.T) {
	const cancelA, cancelB, markA = "x Pod/a: TaintManagerEviction: Cancelling deletion of Pod n/a", "x Pod/b: TaintManagerEviction: Cancelling deletion of Pod n/b", "x Pod/a: TaintManagerEviction: Marking for deletion Pod n/a"
	if got := withoutLuck([]string{cancelA, cancelB, markA}); !slices.Equal(got, []string{cancelB, markA}) {
		t.Errorf("%q are left", got)
	}
}
