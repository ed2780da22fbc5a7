package record

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const full = `{"v":1,"node":"n","pools":[` +
	`{"name":"a","uid":"1","hash":"01234567","at":"2027-01-15T08:00:00Z","joined":true,"labels":{"team":{"set":"ml","was":"x"}},"taints":{"gpu:NoSchedule":{"set":"","was":"old","added":"2026-01-01T00:00:00Z"}}},` +
	`{"name":"a","uid":"2","annotations":{"example.com/note":{"set":"n"}}},` +
	`{"name":"b","uid":"0","joined":true}]}`

func TestARecordSurvivesBeingWrittenAndRead(t *testing.T) {
	rec, err := Parse(full)
	if err != nil {
		t.Fatal(err)
	}
	if got := rec.Text(); got != full {
		t.Errorf("got\n%s\nwant\n%s", got, full)
	}
	gpu := rec.Pools[0].Keys[Key{Kind: Taint, Name: "gpu", Effect: corev1.TaintEffectNoSchedule}]
	if gpu.Was == nil || gpu.Was.Text != "old" || gpu.Was.Added.IsZero() || !rec.Pools[0].At.Equal(time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("read %+v", rec.Pools[0])
	}
	again := rec.Clone()
	again.Open("aa", "3").Keys[Key{Kind: Label, Name: "x"}] = NewEntry("1", nil)
	if rec.Equal(again) || !rec.Equal(rec.Clone()) || rec.Find("3") != nil || again.Pools[2].Name != "aa" {
		t.Errorf("a changed copy: %s of %s", again.Text(), rec.Text())
	}
	if empty, err := Parse(""); err != nil || empty.Text() != "" {
		t.Errorf("an empty record is %q, %v", empty.Text(), err)
	}
}

func TestRolesAndRestrictedLabelsCanBeOwned(t *testing.T) {
	for _, name := range []string{"node-role.kubernetes.io/gpu", "node-restriction.kubernetes.io/team", "x.node-restriction.kubernetes.io/a", "kubernetes.io", "example.com/kubernetes.io"} {
		if _, err := Parse(strings.Replace(full, `"team":`, `"`+name+`":`, 1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsNotUnderstoodIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":             `pools: a`,
		"cut off":             full[:len(full)-20],
		"text behind it":      full + "x",
		"another version":     strings.Replace(full, `"v":1`, `"v":2`, 1),
		"no version":          strings.Replace(full, `"v":1,`, ``, 1),
		"an unknown field":    strings.Replace(full, `"hash"`, `"hush"`, 1),
		"a pool without UID":  strings.Replace(full, `"uid":"1"`, `"uid":""`, 1),
		"a pool without name": strings.Replace(full, `"name":"b"`, `"name":""`, 1),
		"the same pool twice": strings.Replace(full, `"uid":"2"`, `"uid":"1"`, 1),
		"a key of two pools":  strings.Replace(full, `"joined":true}]}`, `"labels":{"team":{"set":"x"}}}]}`, 1),
		"a taint no effect":   strings.Replace(full, `gpu:NoSchedule`, `gpu`, 1),
		"a time that is none": strings.Replace(full, `2027-01-15T08`, `2027-01-15 08`, 1),
		"an impossible name":  strings.Replace(full, `"name":"b"`, `"name":"../b"`, 1),
		"a label not ours":    strings.Replace(full, `"team":`, `"topology.kubernetes.io/zone":`, 1),
		"a taint not ours":    strings.Replace(full, `"gpu:NoSchedule"`, `"node.kubernetes.io/unreachable:NoExecute"`, 1),
		"a role not ours":     strings.Replace(full, `"team":`, `"node-role.kubernetes.io/control-plane":`, 1),
		"the record itself":   strings.Replace(full, `"example.com/note":`, `"nodes.orrery.dev/pools":`, 1),
		"null":                `null`,
		"a list":              `[]`,
	} {
		if rec, err := Parse(text); err == nil {
			t.Errorf("%s: read as %+v", name, rec)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add(`{"v":1,"node":"","pools":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		rec, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(rec.Text())
		if err != nil || !again.Equal(rec) {
			t.Errorf("%q is read as %+v, written as %q and read as %+v, %v", text, rec, rec.Text(), again, err)
		}
	})
}

func TestALongValueIsKnownByItsDigest(t *testing.T) {
	long := strings.Repeat("x", 64)
	e := NewEntry(long, nil)
	if e.Set == long || !e.Holds(long) || e.Holds(long+"x") || e.Holds(e.Set) {
		t.Errorf("entry %+v", e)
	}
}

func TestRevertGivesBackWhatWasAndLeavesWhatOthersChanged(t *testing.T) {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	label := func(name string) Key { return Key{Kind: Label, Name: name} }
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"was": "x", "theirs": "1"}}}
	node.Spec.Taints = []corev1.Taint{{Key: "t", Value: "old", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &at}}
	s := StateOf(node)
	var rec Record
	p := rec.Open("p", "1")
	for _, k := range []Key{label("was"), label("new"), label("theirs"), {Kind: Taint, Name: "t", Effect: corev1.TaintEffectNoSchedule}} {
		var was *Value
		if v, ok := s.Get(k); ok {
			was = &v
		}
		Take(&s, p, k, "ours", was)
	}
	if s.Labels["was"] != "ours" || s.Labels["new"] != "ours" || s.Taints[0].Value != "ours" || node.Labels["was"] != "x" || node.Spec.Taints[0].Value != "old" {
		t.Fatalf("state %+v of %+v", s, node)
	}
	s.Set(label("theirs"), Value{Text: "2"})
	for k := range p.Keys {
		Release(&s, p, k)
	}
	rec.Forget("1")
	if len(s.Labels) != 2 || s.Labels["was"] != "x" || s.Labels["theirs"] != "2" || s.Taints[0].Value != "old" || !s.Taints[0].TimeAdded.Equal(&at) || rec.Text() != "" {
		t.Errorf("state %+v, record %q", s, rec.Text())
	}
}
