package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op, Path string
	Value    any
}

// MarshalJSON writes the value even if it is null or empty; only a remove has none.
func (o operation) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" {
		return json.Marshal(map[string]any{"op": o.Op, "path": o.Path})
	}
	return json.Marshal(map[string]any{"op": o.Op, "path": o.Path, "value": o.Value})
}

// patchBetween returns the JSON patch that applies the change from before to after to the raw object; nil if they are
// equal. It is not the difference between raw and after: the Go type of an older program may lack fields that the object
// has, and those must be kept.
func patchBetween(raw []byte, before, after any) ([]byte, error) {
	var trees [3]any
	for i, v := range []any{json.RawMessage(raw), before, after} {
		data, err := json.Marshal(v)
		if err == nil {
			d := json.NewDecoder(strings.NewReader(string(data)))
			d.UseNumber() // a large integer must not lose digits
			err = d.Decode(&trees[i])
		}
		if err != nil {
			return nil, fmt.Errorf("compare with the defaulted object: %w", err)
		}
	}
	ops := difference(nil, "", trees[0], trees[1], trees[2])
	if len(ops) == 0 {
		return nil, nil
	}
	return json.Marshal(ops)
}

// difference appends the operations for a path. raw is what the object has there, or nil.
func difference(ops []operation, path string, raw, before, after any) []operation {
	if reflect.DeepEqual(before, after) {
		return ops
	}
	switch a := after.(type) {
	case map[string]any:
		b, wasMap := before.(map[string]any)
		r, isMap := raw.(map[string]any)
		if wasMap && isMap {
			return fieldsOf(ops, path, r, b, a)
		}
	case []any:
		b, wasList := before.([]any)
		r, isList := raw.([]any)
		if wasList && isList && len(b) == len(r) && len(a) >= len(b) {
			return elements(ops, path, r, b, a)
		}
	}
	return append(ops, operation{Op: "replace", Path: path, Value: after})
}

// fieldsOf appends the operations for the fields of an object.
func fieldsOf(ops []operation, path string, raw, before, after map[string]any) []operation {
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := path + "/" + escape.Replace(name)
		has, ok := raw[name]
		was, had := before[name]
		is, stays := after[name]
		switch {
		case !stays && ok:
			ops = append(ops, operation{Op: "remove", Path: at})
		case stays && had && ok:
			ops = difference(ops, at, has, was, is)
		case stays && (!had || !reflect.DeepEqual(was, is)):
			// An add replaces a field that exists.
			ops = append(ops, operation{Op: "add", Path: at, Value: is})
		}
	}
	return ops
}

// elements appends the operations for a list that has not become shorter.
func elements(ops []operation, path string, raw, before, after []any) []operation {
	for i := range after {
		if i < len(before) {
			ops = difference(ops, path+"/"+strconv.Itoa(i), raw[i], before[i], after[i])
			continue
		}
		ops = append(ops, operation{Op: "add", Path: path + "/-", Value: after[i]})
	}
	return ops
}

// escape encodes a field name as a reference token of a JSON pointer (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")
