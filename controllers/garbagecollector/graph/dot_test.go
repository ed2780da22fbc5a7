package graph

import (
	"os"
	"strings"
	"testing"
)

func TestGraphIsDrawn(t *testing.T) {
	g := New()
	for _, step := range []string{
		`observe ConfigMap ns/alone`,
		`observe ConfigMap ns/owner deleting foreground`,
		`observe Pod ns/a"b uid=a owner=ConfigMap:owner!`,
		`observe Pod ns/b owner=Widget:w:w owner=ConfigMap:owner`,
		`observe Pod ns/c owner=ConfigMap:gone deleting`,
		`absent ConfigMap ns/gone`,
	} {
		perform(t, g, step)
	}
	golden(t, g, "testdata/all.dot")
	golden(t, g, "testdata/part.dot", "c")
}

func golden(t *testing.T, g *Graph, file string, uids ...string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := g.WriteDOT(&got, uidsOf(uids)...); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("%s: got\n%s", file, got.String())
	}
}
