package options

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// addUnbuiltFlags registers the flags of controllers that are not in this build, so that manifests of
// kube-controller-manager can be used unchanged. It skips flags that are registered already, and returns the added ones with
// the controllers that they belong to.
func addUnbuiltFlags(fss *cliflag.NamedFlagSets) map[string]string {
	taken := map[string]bool{}
	for _, fs := range fss.FlagSets {
		fs.VisitAll(func(f *pflag.Flag) { taken[f.Name] = true })
	}
	owners := map[string]string{}
	for _, row := range flagRows() {
		if taken[row.name] || !isControllerSection(row.section) {
			continue
		}
		addTypedFlag(fss.FlagSet(row.section), row, "Accepted without effect: "+row.section+" is not in this build.")
		owners[row.name] = row.section
	}
	return owners
}

// addTypedFlag registers a flag with the type and default of the row, so that values of another type are refused.
func addTypedFlag(fs *pflag.FlagSet, row flagRow, usage string) {
	switch row.kind {
	case "bool":
		fs.Bool(row.name, row.value == "true", usage)
	case "duration":
		d, _ := time.ParseDuration(row.value) // empty is zero
		fs.Duration(row.name, d, usage)
	case "int32":
		n, _ := strconv.ParseInt(row.value, 10, 32)
		fs.Int32(row.name, int32(n), usage)
	case "float32":
		n, _ := strconv.ParseFloat(row.value, 32)
		fs.Float32(row.name, float32(n), usage)
	case "float":
		n, _ := strconv.ParseFloat(row.value, 64)
		fs.Float64(row.name, n, usage)
	case "strings":
		fs.StringSlice(row.name, nil, usage)
	default:
		fs.String(row.name, row.value, usage)
	}
}

// unbuiltWarnings names the flags that were given a value without effect.
func (s *CMServer) unbuiltWarnings() []string {
	var warnings []string
	s.visitFlags(func(f *pflag.Flag) {
		if owner := s.unbuilt[f.Name]; owner != "" && s.given(f) {
			warnings = append(warnings, fmt.Sprintf("--%s=%s has no effect: %s is not in this build", f.Name, f.Value, owner))
		}
	})
	return warnings
}
