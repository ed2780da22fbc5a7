package options

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"
	cmconfigv1alpha1 "k8s.io/controller-manager/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Debugging says what /debug/pprof serves.
type Debugging struct {
	// Profiling serves /debug/pprof.
	Profiling bool
	// ContentionProfiling makes the block profile, if Profiling is on.
	ContentionProfiling bool
}

// AddFlags registers the flags of the section "Debugging".
func (o *Debugging) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling,
		"Serve profiles under /debug/pprof/.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling,
		"Record where goroutines block, if --profiling is on.")
}

// LeaderMigration moves controllers from one kind of controller manager to another without a gap. None of those that
// upstream moves is left in a controller manager of this version, so it is accepted and checked, and moves nothing.
type LeaderMigration struct {
	// Enabled asks for it.
	Enabled bool
	// ConfigFile says which controllers move where; empty means upstream's list.
	ConfigFile string
}

// AddFlags registers the flags of the section "Leader-migration".
func (o *LeaderMigration) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "enable-leader-migration", o.Enabled,
		"Accepted as it is in the manifests of kube-controller-manager. None of the controllers that migrate is left in one, so it has no effect.")
	fs.StringVar(&o.ConfigFile, "leader-migration-config", o.ConfigFile,
		"File with a LeaderMigrationConfiguration of controllermanager.config.k8s.io/v1, which is checked.")
}

// Validate reports every problem of the file.
func (o *LeaderMigration) Validate() []error {
	if !o.Enabled || o.ConfigFile == "" {
		return nil
	}
	data, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return []error{fmt.Errorf("--leader-migration-config must be a readable file: %w", err)}
	}
	var c cmconfigv1alpha1.LeaderMigrationConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return []error{fmt.Errorf("--leader-migration-config %s must be a LeaderMigrationConfiguration: %w", o.ConfigFile, err)}
	}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("--leader-migration-config "+o.ConfigFile+": "+format, args...))
	}
	const group, kind = "controllermanager.config.k8s.io", "LeaderMigrationConfiguration"
	// Its three versions have the same fields, but that v1 has no resourceLock any more.
	if gvk := c.GroupVersionKind(); gvk.Group != group || gvk.Kind != kind || !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, gvk.Version) {
		bad("apiVersion and kind must be %s/v1 and %s, got %q and %q", group, kind, c.APIVersion, c.Kind)
	}
	if c.LeaderName == "" {
		bad("leaderName must not be empty")
	}
	if lock := c.ResourceLock; lock != "leases" && lock != "endpoints" && (lock != "" || c.GroupVersionKind().Version != "v1") {
		bad("resourceLock must be leases, got %q", c.ResourceLock)
	}
	for i, l := range c.ControllerLeaders {
		if l.Name == "" || l.Component == "" {
			bad("controllerLeaders[%d] must have a name and a component, got %q and %q", i, l.Name, l.Component)
		}
	}
	return errs
}
