package options

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	cmconfigv1alpha1 "k8s.io/controller-manager/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// LeaderMigration runs some controllers under a second lease, for which several kinds of controller managers compete: so a
// controller can move from one kind to another and is never run by both.
type LeaderMigration struct {
	// Enabled turns it on. It has no effect without leader election.
	Enabled bool
	// ConfigFile says which controllers move where; empty means the list in the configuration file, or else upstream's.
	ConfigFile string

	inline cmconfigv1alpha1.LeaderMigrationConfiguration // of the configuration file
}

// Migration says which controllers run where.
type Migration struct {
	// LeaseName is the name of the lease of the controllers that move.
	LeaseName string
	// components are the components that may run a controller, by the controller's name.
	components map[string]string
	leaders    []cmconfigv1alpha1.ControllerLeaderConfiguration
}

const (
	// component is this daemon's name in a LeaderMigrationConfiguration.
	component = "kube-controller-manager"
	// anyComponent stands for every component.
	anyComponent   = "*"
	migrationGroup = "controllermanager.config.k8s.io"
	migrationKind  = "LeaderMigrationConfiguration"
	// migrationLock is the only kind of lock that is left.
	migrationLock = "leases"
	// tokenController must run before the migration begins, and stays under the main lease whatever a file says.
	tokenController = "serviceaccount-token-controller"
)

// AddFlags registers the flags of the section "Leader-migration".
func (o *LeaderMigration) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "enable-leader-migration", o.Enabled,
		"Run the controllers that --leader-migration-config names under a second lease, acquired after the first, so that they can migrate between "+
			"different controller managers without ever running in two.")
	fs.StringVar(&o.ConfigFile, "leader-migration-config", o.ConfigFile,
		"File with a LeaderMigrationConfiguration of controllermanager.config.k8s.io/v1. Empty: the controllers of cloud providers, "+
			"none of which is left here, under the lease cloud-provider-extraction-migration.")
}

// defaultMigration is upstream's list.
func defaultMigration() *Migration {
	c := cmconfigv1alpha1.LeaderMigrationConfiguration{LeaderName: "cloud-provider-extraction-migration"}
	for _, name := range []string{"route-controller", "service-controller", "cloud-node-lifecycle-controller"} {
		c.ControllerLeaders = append(c.ControllerLeaders, cmconfigv1alpha1.ControllerLeaderConfiguration{Name: name, Component: anyComponent})
	}
	return newMigration(c)
}

func newMigration(c cmconfigv1alpha1.LeaderMigrationConfiguration) *Migration {
	m := &Migration{LeaseName: c.LeaderName, leaders: c.ControllerLeaders, components: map[string]string{}}
	for _, l := range c.ControllerLeaders {
		m.components[l.Name] = l.Component // the last of several counts
	}
	return m
}

// Includes reports whether a controller runs under the migration's lease. A nil Migration includes none.
func (m *Migration) Includes(name string) bool {
	if m == nil || name == tokenController {
		return false
	}
	c := m.components[name]
	return c == component || c == anyComponent
}

// elsewhere returns the component that runs a controller; empty if it may run here.
func (m *Migration) elsewhere(name string) string {
	if m == nil || name == tokenController || m.Includes(name) {
		return ""
	}
	return m.components[name]
}

// read returns the migration that the flags ask for, nil if none, and every problem of the file.
func (o *LeaderMigration) read() (*Migration, []error) {
	switch {
	case !o.Enabled:
		return nil, nil
	case o.ConfigFile == "" && o.inline.LeaderName == "" && len(o.inline.ControllerLeaders) == 0:
		return defaultMigration(), nil
	case o.ConfigFile == "":
		return checkedMigration("--config: Generic.LeaderMigration", o.inline)
	}
	data, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return nil, []error{fmt.Errorf("--leader-migration-config must be a readable file: %w", err)}
	}
	var c cmconfigv1alpha1.LeaderMigrationConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, []error{fmt.Errorf("--leader-migration-config %s must be a LeaderMigrationConfiguration: %w", o.ConfigFile, err)}
	}
	return checkedMigration("--leader-migration-config "+o.ConfigFile, c)
}

func checkedMigration(source string, c cmconfigv1alpha1.LeaderMigrationConfiguration) (*Migration, []error) {
	errs := checkMigration(c)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", source, err)
	}
	return newMigration(c), errs
}

// setInline sets a field from the configuration file. It returns false for an unknown field.
func (o *LeaderMigration) setInline(field string, l configLeaf) bool {
	o.inline.APIVersion, o.inline.Kind = migrationGroup+"/v1", migrationKind
	switch field {
	case "LeaderName":
		o.inline.LeaderName = l.values[0]
	case "ResourceLock":
		o.inline.ResourceLock = l.values[0]
	case "ControllerLeaders":
		for _, item := range l.items {
			o.inline.ControllerLeaders = append(o.inline.ControllerLeaders,
				cmconfigv1alpha1.ControllerLeaderConfiguration{Name: item["Name"], Component: item["Component"]})
		}
	case "APIVersion", "Kind":
	default:
		return false
	}
	return true
}

// configuration returns the migration in the form of the configuration file.
func (m *Migration) configuration() (c cmconfigv1alpha1.LeaderMigrationConfiguration) {
	if m != nil {
		c.LeaderName, c.ResourceLock, c.ControllerLeaders = m.LeaseName, migrationLock, m.leaders
	}
	return c
}

// checkMigration returns the errors in the content of a file. Its three versions have the same fields, except that v1 no
// longer has resourceLock.
func checkMigration(c cmconfigv1alpha1.LeaderMigrationConfiguration) (errs []error) {
	gvk := c.GroupVersionKind()
	if gvk.Group != migrationGroup || gvk.Kind != migrationKind || !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, gvk.Version) {
		errs = append(errs, fmt.Errorf("apiVersion and kind must be %s/v1 and %s, got %q and %q", migrationGroup, migrationKind, c.APIVersion, c.Kind))
	}
	switch {
	case c.LeaderName == "":
		errs = append(errs, errors.New("leaderName must not be empty"))
	case len(validation.IsDNS1123Subdomain(c.LeaderName)) > 0:
		errs = append(errs, fmt.Errorf("leaderName must be the name of an object, got %q: %s", c.LeaderName, validation.IsDNS1123Subdomain(c.LeaderName)[0]))
	}
	if lock := c.ResourceLock; lock != migrationLock && (lock != "" || gvk.Version != "v1") {
		errs = append(errs, fmt.Errorf("resourceLock must be %s, got %q", migrationLock, lock))
	}
	for i, l := range c.ControllerLeaders {
		if l.Name == "" || l.Component == "" {
			errs = append(errs, fmt.Errorf("controllerLeaders[%d] must have a name and a component, got %q and %q", i, l.Name, l.Component))
		}
	}
	return errs
}

// Migration returns which controllers run under the second lease; nil if none does. Validate sets it.
func (s *CMServer) Migration() *Migration { return s.migration }

// validateMigration sets s.migration and reports every problem.
func (s *CMServer) validateMigration() []error {
	m, errs := s.LeaderMigration.read()
	if m != nil && m.LeaseName == s.LeaderElection.ResourceName {
		errs = append(errs, fmt.Errorf("--leader-migration-config: leaderName must not be that of --leader-elect-resource-name, got %q", m.LeaseName))
	}
	s.migration = nil
	if len(errs) == 0 && s.LeaderElection.LeaderElect {
		s.migration = m
	}
	return errs
}

// migrationWarnings names the parts of the migration that have no effect.
func (s *CMServer) migrationWarnings() (warnings []string) {
	if s.LeaderMigration.Enabled && !s.LeaderElection.LeaderElect {
		warnings = append(warnings, "--enable-leader-migration=true has no effect: --leader-elect is false")
	}
	if s.LeaderMigration.ConfigFile != "" && !s.LeaderMigration.Enabled {
		warnings = append(warnings, "--leader-migration-config="+s.LeaderMigration.ConfigFile+" has no effect: --enable-leader-migration is false")
	}
	m, _ := s.LeaderMigration.read()
	if m == nil {
		return warnings
	}
	names := s.controllerNames(s.KnownControllers())
	for _, l := range m.leaders {
		switch found, ok := names[l.Name]; {
		case l.Name == tokenController:
			warnings = append(warnings, "--leader-migration-config: "+l.Name+" stays under the first lease, as the others need it")
		case ok && found.canonical != l.Name:
			warnings = append(warnings, fmt.Sprintf("--leader-migration-config: %s does not move: %q is another name for it, which does not count here", found.canonical, l.Name))
		}
	}
	return warnings
}
