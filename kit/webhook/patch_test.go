package webhook

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func apply(t *testing.T, raw string, patch []byte) any {
	t.Helper()
	out := []byte(raw)
	if patch != nil {
		p, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatalf("%s: %v", patch, err)
		}
		if out, err = p.Apply(out); err != nil {
			t.Fatalf("apply %s to %s: %v", patch, raw, err)
		}
	}
	var v any
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPatches(t *testing.T) {
	for _, tc := range []struct{ name, raw, before, after, patch, want string }{
		{"nothing changes", `{"a":1,"unknown":2}`, `{"a":1}`, `{"a":1}`, ``, `{"a":1,"unknown":2}`},
		{"a field is set", `{"unknown":2}`, `{}`, `{"a":1}`, `[{"op":"add","path":"/a","value":1}]`, `{"unknown":2,"a":1}`},
		{"a field is changed", `{"a":1}`, `{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/a","value":2}]`, `{"a":2}`},
		{"a field goes", `{"a":1,"b":2}`, `{"a":1,"b":2}`, `{"b":2}`, `[{"op":"remove","path":"/a"}]`, `{"b":2}`},
		{"a zero that was written out", `{"a":0}`, `{}`, `{"a":3}`, `[{"op":"add","path":"/a","value":3}]`, `{"a":3}`},
		{"a field that only the Go type has goes", `{}`, `{"a":0}`, `{}`, ``, `{}`},
		{"below a parent that is not there", `{}`, `{"spec":{"n":0}}`, `{"spec":{"n":1}}`, `[{"op":"add","path":"/spec","value":{"n":1}}]`, `{"spec":{"n":1}}`},
		{"unknown fields in a list stay", `{"l":[{"n":"a","x":1}]}`, `{"l":[{"n":"a"}]}`, `{"l":[{"n":"a","k":"d"},{"n":"b"}]}`,
			`[{"op":"add","path":"/l/0/k","value":"d"},{"op":"add","path":"/l/-","value":{"n":"b"}}]`, `{"l":[{"n":"a","x":1,"k":"d"},{"n":"b"}]}`},
		{"a list becomes shorter", `{"l":[1,2]}`, `{"l":[1,2]}`, `{"l":[2]}`, `[{"op":"replace","path":"/l","value":[2]}]`, `{"l":[2]}`},
		{"odd names", `{"a/b":{"~":1}}`, `{"a/b":{"~":1}}`, `{"a/b":{"~":null}}`, `[{"op":"replace","path":"/a~1b/~0","value":null}]`, `{"a/b":{"~":null}}`},
		{"large numbers keep their digits", `{}`, `{}`, `{"n":9007199254740993}`, `[{"op":"add","path":"/n","value":9007199254740993}]`, `{"n":9007199254740993}`},
	} {
		got, err := patchBetween([]byte(tc.raw), json.RawMessage(tc.before), json.RawMessage(tc.after))
		if err != nil || string(got) != tc.patch {
			t.Errorf("%s: %s, %v\nwant %s", tc.name, got, err, tc.patch)
			continue
		}
		if result := apply(t, tc.raw, got); !reflect.DeepEqual(result, parse(t, tc.want)) {
			t.Errorf("%s: makes %v", tc.name, result)
		}
	}
}

// TestARandomChangeIsMadeByItsPatch: where the Go type knows all fields, the patch makes of the object just what the
// handler made of it, and fields that it does not know stay.
func TestARandomChangeIsMadeByItsPatch(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		before, after := tree(random, 3), tree(random, 3)
		was, _ := json.Marshal(before)
		is, _ := json.Marshal(after)
		patch, err := patchBetween(was, before, after)
		if err != nil {
			t.Fatal(err)
		}
		if got := apply(t, string(was), patch); !reflect.DeepEqual(got, parse(t, string(is))) {
			t.Fatalf("%s of %s makes %v, want %s", patch, was, got, is)
		}
		raw := strings.Replace(string(was), "{", `{"unknown":{"deep":[1]},`, 1)
		raw = strings.Replace(raw, ",}", "}", 1)
		patch, err = patchBetween([]byte(raw), before, after)
		if err != nil {
			t.Fatal(err)
		}
		got := apply(t, raw, patch).(map[string]any)
		if !reflect.DeepEqual(got["unknown"], map[string]any{"deep": []any{1.}}) {
			t.Fatalf("%s of %s loses what it does not know: %v", patch, raw, got)
		}
		delete(got, "unknown")
		if !reflect.DeepEqual(any(got), parse(t, string(is))) {
			t.Fatalf("%s of %s makes %v, want %s", patch, raw, got, is)
		}
	}
}

// tree returns a random object.
func tree(random *rand.Rand, depth int) map[string]any {
	out := map[string]any{}
	for range random.IntN(4) {
		out[fmt.Sprint("f", random.IntN(4))] = value(random, depth-1)
	}
	return out
}

func value(random *rand.Rand, depth int) any {
	switch n := random.IntN(6); {
	case n == 0 && depth > 0:
		return tree(random, depth)
	case n == 1 && depth > 0:
		list := []any{}
		for range random.IntN(3) {
			list = append(list, value(random, depth-1))
		}
		return list
	case n == 2:
		return nil
	case n == 3:
		return "s"
	}
	return random.IntN(3)
}
