package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics"

	"orrery/kit"
	"orrery/options/serving"
)

// CMServer holds every setting of the daemon. It is used in this order:
//
//	s := options.NewCMServer()
//	s.Controllers = controllers.All(&s.Shared)
//	fss := s.Flags()     // register them with the command, which parses them
//	err := s.Complete()  // reads --config
//	err = s.Validate(s.KnownControllers(), s.DisabledByDefault())
//	s.Warnings()         // to be logged
type CMServer struct {
	// ConfigFile sets flags that the command line does not.
	ConfigFile string

	Generic
	Operation
	Debugging       Debugging
	LeaderMigration LeaderMigration
	Gates           Gates

	SecureServing  serving.SecureOptions
	Authentication serving.AuthenticationOptions
	Authorization  serving.AuthorizationOptions

	Metrics *metrics.Options
	Logs    *logsapi.LoggingConfiguration

	// Webhooks of Orrery's own kinds.
	Webhooks Webhooks

	// Shared are the settings that several controllers read.
	Shared Shared
	// Controllers are the controllers of this build, in the order in which they start.
	Controllers []kit.Descriptor

	flags    *cliflag.NamedFlagSets
	unbuilt  map[string]string // flag to the controller it belongs to
	fromFile map[string]int    // flag to the line of ConfigFile that set it
	notes    []string          // warnings about ConfigFile

	migration *Migration // set by Validate; nil: all controllers run under one lease
}

// NewCMServer returns the defaults, without controllers.
func NewCMServer() *CMServer {
	return &CMServer{
		Generic:        NewGeneric(),
		Operation:      Operation{PanicPolicy: kit.IsolatePanics},
		Debugging:      Debugging{Profiling: true},
		SecureServing:  serving.NewSecureOptions(),
		Authentication: serving.NewAuthenticationOptions(),
		Authorization:  serving.NewAuthorizationOptions(),
		Metrics:        metrics.NewOptions(),
		Logs:           logsapi.NewLoggingConfiguration(),
		Webhooks:       Webhooks{Port: 9443},
		Shared:         NewShared(),
	}
}

// rangeController allocates the ranges of pod addresses.
const rangeController = "node-ipam-controller"

// sharedSection is the section of the flags that several service account controllers read.
const sharedSection = "serviceaccount-controller"

// Flags returns the flags in the sections of --help, in upstream's order; controllers that upstream does not have come last.
// Later calls return the same flags as the first. The section "global" is left to the command.
func (s *CMServer) Flags() cliflag.NamedFlagSets {
	if s.flags != nil {
		return *s.flags
	}
	fss := &cliflag.NamedFlagSets{}
	s.Debugging.AddFlags(fss.FlagSet("debugging"))
	s.LeaderMigration.AddFlags(fss.FlagSet("leader-migration"))
	generic := fss.FlagSet("generic")
	s.Generic.AddFlags(generic, s.KnownControllers(), s.DisabledByDefault())
	s.Shared.Cloud.AddFlags(generic)
	s.Gates.AddFlags(generic)
	s.Webhooks.AddFlags(generic)
	s.Operation.AddFlags(generic)
	generic.StringVar(&s.ConfigFile, "config", s.ConfigFile,
		"File with a "+configKind+" of "+configVersion+". Flags on the command line take precedence over it.")
	s.SecureServing.AddFlags(fss.FlagSet("secure serving"))
	s.Authentication.AddFlags(fss.FlagSet("authentication"))
	s.Authorization.AddFlags(fss.FlagSet("authorization"))

	for _, row := range flagRows() {
		if isControllerSection(row.section) {
			fss.FlagSet(row.section) // fixes the order
		}
	}
	s.Shared.AddFlags(fss.FlagSet(sharedSection))
	for _, d := range s.Controllers {
		if d.AddFlags != nil {
			d.AddFlags(fss.FlagSet(d.Name))
		}
	}
	s.unbuilt = addUnbuiltFlags(fss)

	s.Metrics.AddFlags(fss.FlagSet("metrics"))
	logsapi.AddFlags(s.Logs, fss.FlagSet("logs"))
	s.Generic.addMiscFlags(fss.FlagSet("misc"))
	s.flags = fss
	return *fss
}

// isControllerSection reports whether a section is named after a controller.
func isControllerSection(section string) bool { return strings.HasSuffix(section, "-controller") }

// visitFlags calls f with every flag, by section and name.
func (s *CMServer) visitFlags(f func(*pflag.Flag)) {
	fss := s.Flags()
	for _, name := range fss.Order {
		fss.FlagSets[name].VisitAll(f)
	}
}

// flag returns a flag by name, or nil.
func (s *CMServer) flag(name string) *pflag.Flag {
	for _, fs := range s.Flags().FlagSets {
		if f := fs.Lookup(name); f != nil {
			return f
		}
	}
	return nil
}

// given reports whether a flag was set on the command line or by the configuration file.
func (s *CMServer) given(f *pflag.Flag) bool {
	_, inFile := s.fromFile[f.Name]
	return f.Changed || inFile
}

// EffectiveFlags returns "--flag=value" for every flag, by name. None of them is a secret.
func (s *CMServer) EffectiveFlags() []string {
	var lines []string
	s.visitFlags(func(f *pflag.Flag) {
		if f.Deprecated == "" || s.given(f) {
			lines = append(lines, "--"+f.Name+"="+f.Value.String())
		}
	})
	slices.Sort(lines)
	return lines
}

// Complete reads the configuration file, if there is one, and sets the flags that were not given. Its error has one line for
// each problem of the file.
func (s *CMServer) Complete() error {
	if s.ConfigFile == "" {
		return nil
	}
	return s.loadConfig(s.ConfigFile)
}

// Validate reports every problem of every setting at once, one per line, each with flag, value and what would be
// right. knownControllers are the names of the controllers in this build, disabledByDefault those among them that are
// off unless named.
func (s *CMServer) Validate(knownControllers, disabledByDefault []string) error {
	errs := s.Generic.Validate()
	selection, _ := s.checkSelection(knownControllers)
	errs = append(errs, selection...)
	for _, name := range disabledByDefault {
		if !slices.Contains(knownControllers, name) {
			errs = append(errs, fmt.Errorf("controller %q is off by default but not known", name))
		}
	}
	errs = append(errs, s.validateMigration()...)
	errs = append(errs, s.Gates.Validate()...)
	errs = append(errs, s.Webhooks.Validate()...)
	errs = append(errs, s.Operation.Validate()...)
	ranges := s.IsEnabled(kit.Descriptor{Name: rangeController})
	errs = append(errs, s.Shared.Validate(ranges)...)
	errs = append(errs, s.SecureServing.Validate()...)
	errs = append(errs, s.Authentication.Validate()...)
	errs = append(errs, s.Authorization.Validate()...)
	for _, d := range s.Controllers {
		if d.Validate != nil {
			errs = append(errs, d.Validate()...)
		}
	}
	if ranges && s.unbuilt["service-cluster-ip-range"] != "" {
		errs = append(errs, validateCIDRs("service-cluster-ip-range", s.flag("service-cluster-ip-range").Value.String())...)
	}
	errs = append(errs, s.validateMetrics()...)
	errs = append(errs, s.validateLogs()...)
	return errors.Join(errs...)
}

// Warnings names every setting that is allowed but has no effect or an unusual one. It is for the log at start.
func (s *CMServer) Warnings() []string {
	_, warnings := s.checkSelection(s.KnownControllers())
	warnings = append(warnings, s.notes...)
	warnings = append(warnings, s.unbuiltWarnings()...)
	warnings = append(warnings, s.Gates.Warnings()...)
	warnings = append(warnings, s.Authentication.Warnings()...)
	warnings = append(warnings, s.migrationWarnings()...)
	if burst := s.flag("kube-api-burst"); s.QPS <= 0 && s.given(burst) {
		warnings = append(warnings, fmt.Sprintf("--kube-api-burst=%d has no effect: --kube-api-qps does not limit requests", s.Burst))
	}
	if s.Shared.Cloud.AllocateNodeCIDRs && !slices.Contains(s.KnownControllers(), rangeController) {
		warnings = append(warnings, "--allocate-node-cidrs=true has no effect: "+rangeController+" is not in this build")
	}
	return warnings
}
