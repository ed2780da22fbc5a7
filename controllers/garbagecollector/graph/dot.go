package graph

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// vertex is a node as it is drawn.
type vertex struct {
	View
	missing bool // known not to exist
}

// edge leads from a dependent to its owner.
type edge struct{ from, to types.UID }

// WriteDOT draws the graph in the DOT language of Graphviz, with the attributes of an object also as attributes of its
// node so that programs can read them: all objects that own something or are owned, or, where UIDs are given, those that
// are connected with one of them. The order is that of the UIDs.
func (g *Graph) WriteDOT(w io.Writer, uids ...types.UID) error {
	vertices, edges := g.draw(uids)
	var b strings.Builder
	b.WriteString("strict digraph full {\n")
	for _, v := range vertices {
		v.write(&b)
	}
	for _, e := range edges {
		fmt.Fprintf(&b, "  %q -> %q;\n", e.from, e.to)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (g *Graph) draw(uids []types.UID) ([]vertex, []edge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	drawn := g.nodes
	if len(uids) > 0 {
		drawn = g.connected(uids)
	}
	vertices := map[types.UID]vertex{}
	edges := map[edge]bool{}
	for uid, n := range drawn {
		if len(n.dependents) == 0 && len(n.owners) == 0 {
			continue
		}
		vertices[uid] = vertex{
			View:    View{Ref: n.ref, Virtual: n.virtual, Deleting: n.deleting, Foreground: n.foreground},
			missing: n.absent,
		}
		for _, o := range n.owners {
			edges[edge{uid, o.uid}] = true
		}
	}
	return slices.SortedFunc(maps.Values(vertices), func(a, b vertex) int { return cmp.Compare(a.Ref.UID, b.Ref.UID) }),
		slices.SortedFunc(maps.Keys(edges), func(a, b edge) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
}

// connected returns the nodes that can be reached from some in either direction. g.mu is held.
func (g *Graph) connected(uids []types.UID) map[types.UID]*node {
	found := map[types.UID]*node{}
	for next := slices.Clone(uids); len(next) > 0; next = next[1:] {
		n := g.nodes[next[0]]
		if n == nil || found[next[0]] != nil {
			continue
		}
		found[next[0]] = n
		for _, o := range n.owners {
			next = append(next, o.uid)
		}
		for d := range n.dependents {
			next = append(next, d.ref.UID)
		}
	}
	return found
}

func (v vertex) write(b *strings.Builder) {
	gvk := v.Ref.Kind.GVK()
	typ := strings.TrimSuffix(gvk.Kind+"."+gvk.Version+"."+gvk.Group, ".")
	label := fmt.Sprintf("uid=%s\nnamespace=%s\n%s/%s\n", v.Ref.UID, v.Ref.Namespace, typ, v.Ref.Name)
	states := []struct {
		name string
		on   bool
	}{{"beingDeleted", v.Deleting}, {"deletingDependents", v.Foreground}, {"virtual", v.Virtual}, {"missing", v.missing}}
	var on []string
	for _, s := range states {
		if s.on {
			on = append(on, s.name)
		}
	}
	if len(on) > 0 {
		label += strings.Join(on, ",") + "\n"
	}
	fmt.Fprintf(b, "  %q [\n    label=%q\n", v.Ref.UID, label)
	for _, a := range [][2]string{
		{"group", gvk.Group}, {"version", gvk.Version}, {"kind", gvk.Kind},
		{"namespace", v.Ref.Namespace}, {"name", v.Ref.Name}, {"uid", string(v.Ref.UID)},
	} {
		fmt.Fprintf(b, "    %s=%q\n", a[0], a[1])
	}
	for _, s := range states {
		fmt.Fprintf(b, "    %s=\"%t\"\n", s.name, s.on)
	}
	b.WriteString("  ];\n")
}
