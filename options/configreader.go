package options

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configReader walks a parsed file along the Go type of the configuration, and collects the values that are set and every
// problem with its line.
type configReader struct {
	file   string
	leaves []configLeaf
	errs   []error
}

// configLeaf is a value given in the file.
type configLeaf struct {
	path   string              // field names in Go, joined by dots
	shown  string              // the same with the names in the file
	line   int                 // of the field name in the file
	values []string            // one value, or those of a list
	items  []map[string]string // the fields of each object of a list of objects
}

func (r *configReader) fail(line int, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, line, fmt.Sprintf(format, args...)))
}

// object reads a mapping of a struct type. path and shown end in a dot unless they are empty.
func (r *configReader) object(node *yaml.Node, typ reflect.Type, path, shown string) {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		if node.ShortTag() != "!!null" {
			r.fail(node.Line, "%s must be an object", strings.TrimSuffix(shown, "."))
		}
		return
	}
	fields, names := fieldsOf(typ)
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolved(node.Content[i+1])
		field, ok := fields[key.Value]
		if first := lines[key.Value]; first > 0 {
			r.fail(key.Line, "%s%s is already set in line %d", shown, key.Value, first)
			continue
		}
		lines[key.Value] = key.Line
		if !ok {
			hint := ""
			if near := nearestField(key.Value, names); near != "" {
				hint = "; did you mean " + near + "?"
			}
			r.fail(key.Line, "unknown field %s%s%s", shown, key.Value, hint)
			continue
		}
		r.field(key.Line, value, field.Type, path+field.Name, shown+key.Value)
	}
}

// field reads the value of a field of any type. line is where the file names it.
func (r *configReader) field(line int, node *yaml.Node, typ reflect.Type, path, shown string) {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	leaf := configLeaf{path: path, shown: shown, line: line}
	switch {
	case node.ShortTag() == "!!null":
		return // null is the same as not set
	case typ == reflect.TypeFor[metav1.Duration](), typ.Kind() != reflect.Struct && typ.Kind() != reflect.Slice:
		value, ok := r.scalar(node, typ, shown)
		if !ok {
			return
		}
		leaf.values = []string{value}
	case typ.Kind() == reflect.Struct:
		r.object(node, typ, path+".", shown+".")
		return
	case node.Kind != yaml.SequenceNode:
		r.fail(node.Line, "%s must be a list", shown)
		return
	case typ.Elem().Kind() == reflect.Struct:
		leaf.items = r.objects(node, typ.Elem(), shown)
	default:
		for i, item := range node.Content {
			value, ok := r.scalar(resolved(item), typ.Elem(), fmt.Sprintf("%s[%d]", shown, i))
			if !ok {
				return
			}
			leaf.values = append(leaf.values, value)
		}
	}
	r.leaves = append(r.leaves, leaf)
}

// objects reads a list of objects whose fields are strings.
func (r *configReader) objects(node *yaml.Node, typ reflect.Type, shown string) []map[string]string {
	var items []map[string]string
	for i, item := range node.Content {
		inner := &configReader{file: r.file}
		inner.object(item, typ, "", fmt.Sprintf("%s[%d].", shown, i))
		r.errs = append(r.errs, inner.errs...)
		fields := map[string]string{}
		for _, l := range inner.leaves {
			fields[l.path] = strings.Join(l.values, ",")
		}
		items = append(items, fields)
	}
	return items
}

// scalar returns the text of a single value if it is of the right type.
func (r *configReader) scalar(node *yaml.Node, typ reflect.Type, shown string) (text string, ok bool) {
	want, tag := "", node.ShortTag()
	switch kind := typ.Kind(); {
	case typ == reflect.TypeFor[metav1.Duration]():
		want = "a duration such as 10s"
		_, err := time.ParseDuration(node.Value)
		ok = tag == "!!str" && err == nil
		text = node.Value
	case kind == reflect.String:
		want = "a string"
		text, ok = node.Value, tag == "!!str"
	case kind == reflect.Bool:
		want = "true or false"
		var b bool
		// A plain yes or no is a string to YAML 1.2 but a boolean to the older version that Kubernetes reads.
		ok = (tag == "!!bool" || tag == "!!str" && node.Style == 0) && node.Decode(&b) == nil
		text = strconv.FormatBool(b)
	case kind == reflect.Int32:
		want = "a whole number of 32 bits"
		var n int32
		ok = tag == "!!int" && node.Decode(&n) == nil
		text = strconv.FormatInt(int64(n), 10)
	default:
		want = "a number"
		var n float64
		ok = (tag == "!!int" || tag == "!!float") && node.Decode(&n) == nil && finite(n)
		text = strconv.FormatFloat(n, 'g', -1, 64)
	}
	if !ok || node.Kind != yaml.ScalarNode {
		r.fail(node.Line, "%s must be %s, got %s", shown, want, described(node))
		return "", false
	}
	return text, true
}

// finite reports whether JSON can represent a number.
func finite(n float64) bool { return !math.IsNaN(n) && !math.IsInf(n, 0) }

// described is a node as an error message shows it.
func described(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	if node.ShortTag() == "!!str" {
		return strconv.Quote(node.Value)
	}
	return node.Value
}

// resolved follows an alias to its anchor.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// fieldsOf returns the fields of a struct by their names in a file, and the names in order. Embedded structs without
// a name of their own are part of the outer one.
func fieldsOf(typ reflect.Type) (fields map[string]reflect.StructField, names []string) {
	fields = map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			continue // its fields are visible too
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f
		names = append(names, name)
	}
	return fields, names
}

// nearestField finds the field that a misspelt name probably stands for. Case is the usual mistake: some fields have tags in
// lower case, some have none.
func nearestField(name string, names []string) string {
	for _, known := range names {
		if strings.EqualFold(name, known) {
			return known
		}
	}
	return nearest(name, names)
}
