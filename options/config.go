package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	kcmconfigv1alpha1 "k8s.io/kube-controller-manager/config/v1alpha1"
)

// configKind and configVersion are the kind and apiVersion of a configuration file.
const (
	configKind    = "KubeControllerManagerConfiguration"
	configVersion = "kubecontrollermanager.config.k8s.io/v1alpha1"
)

// loadConfig lets a file set the flags that the command line does not.
func (s *CMServer) loadConfig(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config must be a readable file: %w", err)
	}
	if err := s.applyConfig(path, data); err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	return nil
}

// applyConfig is loadConfig for the content of a file. It reports every problem with its line.
func (s *CMServer) applyConfig(path string, data []byte) error {
	root, err := parseConfig(path, data)
	if err != nil {
		return err
	}
	r := &configReader{file: path}
	r.object(root, reflect.TypeFor[kcmconfigv1alpha1.KubeControllerManagerConfiguration](), "", "")
	s.applyLeaves(r)
	return errors.Join(r.errs...)
}

// parseConfig returns the single mapping in a file, if it has the right apiVersion and kind.
func parseConfig(path string, data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return nil, fmt.Errorf("%s:%d: the file must hold one document", path, more.Line)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: the file must hold a %s of %s", path, configKind, configVersion)
	}
	root := doc.Content[0]
	var errs []error
	for _, want := range []struct{ key, value string }{{"apiVersion", configVersion}, {"kind", configKind}} {
		i := slices.IndexFunc(root.Content, func(n *yaml.Node) bool { return n.Value == want.key })
		switch {
		case i < 0 || i%2 != 0:
			errs = append(errs, fmt.Errorf("%s:%d: %s is missing and must be %s", path, root.Line, want.key, want.value))
		case root.Content[i+1].Value != want.value:
			errs = append(errs, fmt.Errorf("%s:%d: %s must be %s, got %q", path, root.Content[i+1].Line, want.key, want.value, root.Content[i+1].Value))
		}
	}
	return root, errors.Join(errs...)
}

// applyLeaves applies the values of a file: to the flag of each field, or to a setting that has no flag.
func (s *CMServer) applyLeaves(r *configReader) {
	s.fromFile = map[string]int{}
	byPath := map[string]configLeaf{}
	for _, l := range r.leaves {
		byPath[l.path] = l
	}
	for _, field := range configFields() {
		l, ok := byPath[field.path]
		if !ok {
			continue
		}
		delete(byPath, field.path)
		values := l.values
		if second, ok := byPath[field.second]; ok {
			if second.values[0] != "" {
				values = []string{values[0] + "," + second.values[0]}
			}
			delete(byPath, field.second)
		}
		f := s.flag(field.flag)
		if f.Changed {
			continue
		}
		if err := setFlag(f, values); err != nil {
			r.fail(l.line, "%s must be %s, as --%s, got %q", l.shown, typeName(f), f.Name, strings.Join(values, ","))
			continue
		}
		s.fromFile[f.Name] = l.line
	}
	for _, l := range r.leaves {
		if _, left := byPath[l.path]; left && !s.applyFlagless(l) {
			s.notes = append(s.notes, fmt.Sprintf("%s:%d: %s has no effect", r.file, l.line, l.shown))
		}
	}
}

// applyFlagless applies the value of a field without a flag. It returns false if the value has no effect, unless it is zero
// or equal to the fixed behaviour.
func (s *CMServer) applyFlagless(l configLeaf) bool {
	if field, ok := strings.CutPrefix(l.path, "Generic.LeaderMigration."); ok {
		return s.LeaderMigration.setInline(field, l)
	}
	switch l.path {
	case "APIVersion", "Kind":
	case "Generic.ClientConnection.AcceptContentTypes":
		s.AcceptContentTypes = l.values[0]
	case "GarbageCollectorController.GCIgnoredResources":
		var list []kcmconfigv1alpha1.GroupResource
		for _, item := range l.items {
			list = append(list, kcmconfigv1alpha1.GroupResource{Group: item["Group"], Resource: item["Resource"]})
		}
		return slices.Equal(list, uncollected())
	case "Generic.Address":
		return slices.Contains([]string{"", anyAddress}, l.values[0])
	case "PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MaximumRetry":
		return slices.Contains([]string{"0", strconv.Itoa(recyclerTries)}, l.values[0])
	default:
		zero := slices.ContainsFunc(l.values, func(v string) bool { return v == "" || v == "0" || v == "0s" || v == "false" })
		return zero || len(l.values)+len(l.items) == 0
	}
	return true
}

// setFlag sets a flag without marking it as given on the command line.
func setFlag(f *pflag.Flag, values []string) error {
	if slice, ok := f.Value.(pflag.SliceValue); ok {
		return slice.Replace(values)
	}
	return f.Value.Set(values[0])
}

// typeName describes in words what values a flag takes.
func typeName(f *pflag.Flag) string {
	switch t := f.Value.Type(); t {
	case "duration":
		return "a duration such as 10s"
	case "int32":
		return "a whole number of 32 bits"
	case "float32", "float64":
		return "a number"
	case "bool":
		return "true or false"
	default:
		return "a " + t
	}
}
