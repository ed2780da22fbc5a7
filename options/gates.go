package options

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
)

// Gates are the feature gates and the versions that they depend on. The flags are evaluated at each call; no method changes
// the value.
type Gates struct {
	// Given are the name=bool pairs of --feature-gates by component; "" means kube.
	Given map[string][]string
	// EmulatedVersion and MinCompatibilityVersion are major.minor, optionally after "kube=".
	EmulatedVersion, MinCompatibilityVersion []string
}

const kubeComponent = "kube"

// The versions whose gates this daemon knows, and how many versions back upstream can emulate.
const (
	kubeMinor   = 37
	oldestMinor = 34
)

// AddFlags registers the flags, which are in the section "Generic".
func (g *Gates) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&g.EmulatedVersion, "emulated-version", g.EmulatedVersion,
		fmt.Sprintf("Version whose capabilities to emulate, as in 1.%d or kube=1.%d; from 1.%d to 1.%d, which is the default. "+
			"Controllers behave alike in all of them; with the gate CoordinatedLeaderElection the process with the oldest leads.", kubeMinor, kubeMinor, oldestMinor, kubeMinor))
	fs.StringSliceVar(&g.MinCompatibilityVersion, "min-compatibility-version", g.MinCompatibilityVersion,
		fmt.Sprintf("Oldest version of other control plane components to get along with, as in 1.%d or kube=1.%d; from 1.%d to --emulated-version.",
			kubeMinor-1, kubeMinor-1, oldestMinor))
	known := g.defaults().KnownFeatures()
	fs.Var(cliflag.NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey(&g.Given), "feature-gates",
		"Comma-separated name=true|false pairs that turn features on and off, each optionally after \"kube:\". May be given several times. "+
			"Gates of other Kubernetes components are accepted with a warning. Those that matter here:\n"+strings.Join(known, "\n"))
}

// knownGate is a gate that can also list what it knows.
type knownGate interface {
	featuregate.MutableVersionedFeatureGate
	KnownFeatures() []string
	SetFromMapWithLogger(logger logr.Logger, m map[string]bool) error
}

// defaults returns all known gates at their defaults.
func (g *Gates) defaults() knownGate {
	gate := featuregate.NewVersionedFeatureGate(version.MajorMinor(1, kubeMinor))
	specs := map[featuregate.Feature]featuregate.FeatureSpec{}
	requires := map[featuregate.Feature][]featuregate.Feature{}
	for _, row := range gateRows() {
		name := featuregate.Feature(row.name)
		stage := map[string]featuregate.FeatureSpec{
			"ALPHA":     {PreRelease: featuregate.Alpha},
			"BETA":      {PreRelease: featuregate.Beta},
			"GA":        {PreRelease: featuregate.GA},
			"GA-locked": {PreRelease: featuregate.GA, LockToDefault: true},
		}
		spec := stage[row.stage]
		spec.Default = row.on
		specs[name] = spec
		for _, other := range row.requires {
			requires[name] = append(requires[name], featuregate.Feature(other))
		}
	}
	// The tables are fixed, so an error would be a broken build; tests check that every gate has been added.
	_ = gate.Add(specs)
	_ = gate.AddDependencies(requires)
	_ = logsapi.AddFeatureGates(gate)
	_ = metricsfeatures.AddFeatureGates(gate)
	_, _ = newClientGates(gate)
	return gate
}

// FeatureGate returns the gates as the flags set them. Errors are ignored here; Validate reports them.
func (g *Gates) FeatureGate() featuregate.MutableVersionedFeatureGate {
	gate, _ := g.resolve()
	return gate
}

// resolve returns the gates as the flags set them, and the errors in the flags.
func (g *Gates) resolve() (knownGate, []error) {
	gate := g.defaults()
	values, errs := g.values()
	all := gate.GetAll()
	maps.DeleteFunc(values, func(name string, on bool) bool {
		spec, ok := all[featuregate.Feature(name)]
		if ok && spec.LockToDefault && on != spec.Default {
			errs = append(errs, fmt.Errorf("--feature-gates: %s must be %t, as it cannot be changed any more, got %t", name, spec.Default, on))
		}
		return !ok || spec.LockToDefault
	})
	if err := gate.SetFromMapWithLogger(logr.Discard(), values); err != nil {
		errs = append(errs, fmt.Errorf("--feature-gates: %w", err))
		return g.defaults(), errs
	}
	return gate, errs
}

// values parses the pairs of --feature-gates. Later ones win.
func (g *Gates) values() (map[string]bool, []error) {
	values := map[string]bool{}
	var errs []error
	if len(g.Given[""]) > 0 && len(g.Given[kubeComponent]) > 0 {
		errs = append(errs, fmt.Errorf("--feature-gates must have %q before all gates or before none, got %q with and %q without it",
			kubeComponent+":", strings.Join(g.Given[kubeComponent], ","), strings.Join(g.Given[""], ",")))
	}
	for _, component := range slices.Sorted(maps.Keys(g.Given)) {
		if component != "" && component != kubeComponent {
			errs = append(errs, fmt.Errorf("--feature-gates must be for component %q, got %q", kubeComponent, component+":"+strings.Join(g.Given[component], ",")))
			continue
		}
		for _, pair := range g.Given[component] {
			name, value, ok := strings.Cut(pair, "=")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			on, err := strconv.ParseBool(value)
			if !ok || err != nil || name == "" {
				errs = append(errs, fmt.Errorf("--feature-gates must be name=true or name=false, got %q", pair))
				continue
			}
			values[name] = on
		}
	}
	return values, errs
}

// Validate reports every problem, each with flag, value and what would be right.
func (g *Gates) Validate() []error {
	_, errs := g.resolve()
	_, _, problems := g.versions()
	return append(errs, problems...)
}

// versions returns the minor version to emulate and the oldest compatible one; if a flag is invalid, the default.
func (g *Gates) versions() (emulated, oldest uint, errs []error) {
	emulated, err := kubeVersion("emulated-version", g.EmulatedVersion, kubeMinor, kubeMinor)
	if err != nil {
		errs = append(errs, err)
		emulated = kubeMinor
	}
	oldest, err = kubeVersion("min-compatibility-version", g.MinCompatibilityVersion, max(emulated-1, oldestMinor), emulated)
	if err != nil {
		errs = append(errs, err)
	}
	return emulated, oldest, errs
}

// kubeVersion returns the minor version that a flag sets, which must be between the oldest and latest.
func kubeVersion(flag string, given []string, fallback, latest uint) (uint, error) {
	minor, seen := fallback, false
	for _, text := range given {
		component, value, ok := strings.Cut(text, "=")
		if !ok {
			component, value = kubeComponent, text
		}
		v, err := version.Parse(strings.TrimSpace(value))
		switch {
		case strings.TrimSpace(component) != kubeComponent:
			return fallback, fmt.Errorf("--%s must be for component %q, got %q", flag, kubeComponent, text)
		case seen:
			return fallback, fmt.Errorf("--%s must be given once, got %q", flag, given)
		case err != nil, v.Patch() != 0, v.Major() != 1, v.Minor() < oldestMinor, v.Minor() > latest:
			return fallback, fmt.Errorf("--%s must be a version from 1.%d to 1.%d without a patch level, got %q", flag, oldestMinor, latest, text)
		}
		minor, seen = v.Minor(), true
	}
	return minor, nil
}

// Warnings names gates that have no effect here and gates that will be removed.
func (g *Gates) Warnings() []string {
	var warnings []string
	values, _ := g.values()
	all := g.defaults().GetAll()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch spec, ok := all[featuregate.Feature(name)]; {
		case !ok:
			warnings = append(warnings, fmt.Sprintf("--feature-gates: %s=%t has no effect, as no controller here knows this gate", name, values[name]))
		case spec.PreRelease == featuregate.GA:
			warnings = append(warnings, fmt.Sprintf("--feature-gates: %s is generally available and the gate will be removed", name))
		}
	}
	if minor, err := kubeVersion("emulated-version", g.EmulatedVersion, kubeMinor, kubeMinor); err == nil && minor != kubeMinor {
		effect := "has no effect"
		if values[string(CoordinatedLeaderElection)] {
			effect = "only says when to lead"
		}
		warnings = append(warnings, fmt.Sprintf("--emulated-version=1.%d %s: gates keep the defaults of 1.%d", minor, effect, kubeMinor))
	}
	return warnings
}

// CoordinatedLeaderElection lets the API server choose the leader.
const CoordinatedLeaderElection featuregate.Feature = "CoordinatedLeaderElection"

// Emulated returns the version to emulate, as major.minor.
func (g *Gates) Emulated() string {
	minor, _, _ := g.versions()
	return fmt.Sprintf("1.%d", minor)
}

// OldestCompatible returns the oldest version to be compatible with, as major.minor.
func (g *Gates) OldestCompatible() string {
	_, minor, _ := g.versions()
	return fmt.Sprintf("1.%d", minor)
}

// on reports whether a gate is on. A gate that is in no table was removed from Kubernetes after it had graduated, so it is on.
func on(gate featuregate.MutableFeatureGate, name featuregate.Feature) bool {
	if _, known := gate.GetAll()[name]; !known {
		return true
	}
	return gate.Enabled(name)
}
