package kittest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"orrery/kit/client"
)

// update rewrites the want sections of scripts: go test ./controllers/... -run Script -update-scripts.
var update = flag.Bool("update-scripts", false, "rewrite the wanted writes of scenario files with what happens")

// section is one part of a scenario file: a line "-- name --" and the text after it.
type section struct {
	name, text string
}

// Script runs the scenario in a file, in its own bubble. The controller is given as for Run; setup, if any, prepares the API
// before the controller starts. The file has these sections, and free text before the first:
//
//	-- objects --       the initial objects, as YAML documents
//	-- steps --         the steps, one per line; see below
//	-- <file>.yaml --   objects that a step applies
//	-- want --          the writes and events of the controller after each step, sorted
//
// The steps are:
//
//	start                        start the controller
//	at 10m                       let time pass until 10 minutes after the start of the script
//	apply <file>.yaml            merge the objects into those that exist, status included, or create them
//	delete Pod default/web-1     delete as a user does: finalizers and a grace period keep the object
//	remove Pod default/web-1     make the object vanish, as a kubelet does with a stopped pod
//	restart                      stop the controller and start it again
//
// After each step everything settles. What a controller does after a longer wait shows after the next "at".
func Script(t *testing.T, path string, what any, setup ...func(*API)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, sections := parseScript(string(data))
	var got string
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, api: New(t), what: what, sections: sections, start: time.Now()}
		for _, f := range setup {
			f(s.api)
		}
		got = s.play()
	})
	want := textOf(sections, "want")
	if got == want || t.Failed() {
		return
	}
	if *update {
		if err := os.WriteFile(path, formatScript(head, sections, got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s: writes differ (-want +got):\n%s", path, cmp.Diff(want, got))
}

// parseScript splits a file into what comes before the first section, and the sections.
func parseScript(data string) (head string, sections []section) {
	for line := range strings.Lines(data) {
		mark := strings.TrimSpace(line)
		switch name, ok := strings.CutPrefix(mark, "-- "); {
		case ok && strings.HasSuffix(name, " --"):
			sections = append(sections, section{name: strings.TrimSpace(strings.TrimSuffix(name, " --"))})
		case len(sections) == 0:
			head += line
		default:
			sections[len(sections)-1].text += line
		}
	}
	return head, sections
}

func formatScript(head string, sections []section, want string) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	written := false
	for _, s := range sections {
		if s.name == "want" {
			s.text, written = want, true
		}
		fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.text)
	}
	if !written {
		fmt.Fprintf(&b, "-- want --\n%s", want)
	}
	return b.Bytes()
}

func textOf(sections []section, name string) string {
	for _, s := range sections {
		if s.name == name {
			return s.text
		}
	}
	return ""
}

// script is a running scenario.
type script struct {
	t        *testing.T
	api      *API
	what     any
	running  *Running
	sections []section
	start    time.Time
	events   int // already shown
}

func (s *script) play() string {
	s.apply("objects")
	var out strings.Builder
	for line := range strings.Lines(textOf(s.sections, "steps")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.step(strings.Fields(line))
		s.api.Settle()
		seen := s.api.TakeWrites()
		all := s.api.Events()
		for _, e := range all[s.events:] {
			seen = append(seen, "event "+e.String())
		}
		s.events = len(all)
		slices.Sort(seen)
		fmt.Fprintf(&out, "> %s\n", line)
		for _, w := range seen {
			fmt.Fprintln(&out, w)
		}
	}
	return out.String()
}

func (s *script) step(words []string) {
	switch verb, args := words[0], words[1:]; {
	case verb == "start" && len(args) == 0:
		s.running = s.api.Run(s.t, s.what)
	case verb == "restart" && len(args) == 0 && s.running != nil:
		s.running.Stop()
		s.running = s.api.Run(s.t, s.what)
	case verb == "at" && len(args) == 1:
		d, err := time.ParseDuration(args[0])
		if err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(time.Until(s.start.Add(d)))
	case verb == "apply" && len(args) == 1:
		s.apply(args[0])
	case verb == "delete" && len(args) == 2:
		s.api.Delete(s.t, s.named(args[0], args[1]))
	case verb == "remove" && len(args) == 2:
		s.api.Remove(s.t, s.named(args[0], args[1]))
	default:
		s.t.Fatalf("unknown step %q", strings.Join(words, " "))
	}
}

// named returns an object of that kind and name. If several groups have such a kind, it is of the first in alphabetical
// order.
func (s *script) named(kind, name string) *unstructured.Unstructured {
	var found *resource
	for _, r := range s.api.registry.byKind {
		if r.gvk.Kind == kind && s.api.registry.serves(r.gvr()) && (found == nil || r.gvk.String() < found.gvk.String()) {
			found = r
		}
	}
	if found == nil {
		s.t.Fatalf("unknown kind %q", kind)
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(found.gvk)
	ns, short, ok := strings.Cut(name, "/")
	if !ok {
		ns, short = "", name
	}
	o.SetNamespace(ns)
	o.SetName(short)
	return o
}

// apply merges the objects of a section into those that exist.
func (s *script) apply(name string) {
	for doc := range strings.SplitSeq("\n"+textOf(s.sections, name), "\n---") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(data); err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
		s.applyOne(o)
	}
}

func (s *script) applyOne(o *unstructured.Unstructured) {
	r := s.api.registry.byKind[o.GroupVersionKind()]
	if r == nil {
		s.t.Fatalf("unknown kind %s", o.GroupVersionKind())
	}
	cur := o.DeepCopy()
	exists := s.api.Get(s.t, cur)
	merged, err := o.MarshalJSON()
	if before, e := cur.MarshalJSON(); exists && e == nil && err == nil {
		merged, err = jsonpatch.MergePatch(before, merged)
	}
	if err != nil {
		s.t.Fatalf("apply %s %s: %v", r.gvk.Kind, client.KeyOf(o), err)
	}
	next, err := s.api.decodeJSON(r, merged)
	if err != nil {
		s.t.Fatalf("apply %s %s: %v", r.gvk.Kind, client.KeyOf(o), err)
	}
	if exists {
		s.api.Update(s.t, next)
		return
	}
	s.api.Create(s.t, next)
}
