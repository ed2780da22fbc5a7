package registry

import (
	"errors"
	"os"
	"slices"
	"testing"
)

func TestANameHasOneOwnerAtATime(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	first, leftover, err := Take("a")
	if err != nil || leftover != "" {
		t.Fatalf("first claim: leftover %q, %v", leftover, err)
	}
	if _, _, err := Take("a"); !errors.Is(err, ErrTaken) {
		t.Errorf("second claim: %v, want ErrTaken", err)
	}
	if other, _, err := Take("b"); err != nil {
		t.Errorf("another name: %v", err)
	} else if err := other.Release(); err != nil {
		t.Error(err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if again, _, err := Take("a"); err != nil {
		t.Errorf("after release: %v", err)
	} else if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestPublishedFolderIsFoundUntilReleased(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	claim, _, err := Take("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, ready := range []bool{false, true} {
		if err := claim.Publish("/some/where", ready); err != nil {
			t.Fatal(err)
		}
		dir, got, err := Lookup("a")
		if dir != "/some/where" || got != ready || err != nil {
			t.Errorf("lookup: %q, %v, %v", dir, got, err)
		}
	}
	if names, err := Names(); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("names: %v, %v", names, err)
	}
	if err := claim.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir("a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after release: %v, want os.ErrNotExist", err)
	}
}

func TestTheNextOwnerLearnsOfADeadOnesFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	claim, _, err := Take("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Publish("/left/behind", true); err != nil {
		t.Fatal(err)
	}
	// What the kernel does when the owner is killed.
	if err := claim.lock.Close(); err != nil {
		t.Fatal(err)
	}
	next, leftover, err := Take("a")
	if err != nil || leftover != "/left/behind" {
		t.Fatalf("leftover %q, %v", leftover, err)
	}
	if err := next.Release(); err != nil {
		t.Error(err)
	}
}

func TestNamesThatAreNoFileNamesAreRefused(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, name := range []string{"", "A", "../a", "a b", "-a", "a-"} {
		if _, _, err := Take(name); err == nil || errors.Is(err, ErrTaken) {
			t.Errorf("name %q: %v, want a refusal", name, err)
		}
	}
}
