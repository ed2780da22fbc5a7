package options

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kcmconfigv1alpha1 "k8s.io/kube-controller-manager/config/v1alpha1"
)

// Configz returns the settings in effect in the form of the configuration file. It is served by /configz under the key
// kubecontrollermanager.config.k8s.io.
func (s *CMServer) Configz() any {
	c := &kcmconfigv1alpha1.KubeControllerManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configVersion, Kind: configKind},
	}
	root := reflect.ValueOf(c).Elem()
	for _, field := range configFields() {
		values := flagValues(s.flag(field.flag))
		if field.second != "" {
			first, second, _ := strings.Cut(values[0], ",")
			values = []string{first}
			setConfigField(root, field.second, []string{second})
		}
		setConfigField(root, field.path, values)
	}
	c.Generic.Controllers = s.canonicalSelection()
	c.Generic.ClientConnection.AcceptContentTypes = s.AcceptContentTypes
	c.Generic.LeaderMigration = s.migration.configuration()
	c.GarbageCollectorController.GCIgnoredResources = uncollected()
	c.Generic.Address = anyAddress
	c.PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MaximumRetry = recyclerTries
	return c
}

// Fixed values that are part of a configuration.
const (
	anyAddress    = "0.0.0.0"
	recyclerTries = 3
)

// uncollected returns the resources that the garbage collector ignores. They are fixed.
func uncollected() []kcmconfigv1alpha1.GroupResource {
	return []kcmconfigv1alpha1.GroupResource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}}
}

// canonicalSelection returns --controllers with aliases replaced by canonical names.
func (s *CMServer) canonicalSelection() []string {
	names := s.controllerNames(s.KnownControllers())
	var entries []string
	for _, entry := range s.Selection {
		name, minus := strings.CutPrefix(entry, "-")
		if found, ok := names[name]; ok {
			name = found.canonical
		}
		if minus {
			name = "-" + name
		}
		entries = append(entries, name)
	}
	return entries
}

// flagValues returns the value of a flag, or its values if it is a list.
func flagValues(f *pflag.Flag) []string {
	if slice, ok := f.Value.(pflag.SliceValue); ok {
		return slice.GetSlice()
	}
	return []string{f.Value.String()}
}

// setConfigField sets the field at the end of path, which starts in v. The values come out of flags of the same type, so they parse.
func setConfigField(v reflect.Value, path string, values []string) {
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.ValueOf(values))
		return
	}
	text := values[0]
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(text == "true")
	case reflect.Int32:
		n, _ := strconv.ParseInt(text, 10, 32)
		v.SetInt(n)
	case reflect.Float32, reflect.Float64:
		if n, _ := strconv.ParseFloat(text, v.Type().Bits()); finite(n) {
			v.SetFloat(n)
		}
	case reflect.Struct:
		d, _ := time.ParseDuration(text)
		v.Set(reflect.ValueOf(metav1.Duration{Duration: d}))
	}
}
