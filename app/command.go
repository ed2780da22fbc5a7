package app

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	_ "time/tzdata" // for the time zones of CronJobs, in images without them

	"github.com/spf13/cobra"
	clientfeatures "k8s.io/client-go/features"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"orrery/app/ask"
	"orrery/controllers"
	"orrery/kit/manager"
	"orrery/options"
)

// component is the name under which the daemon is known to the cluster, equal to that of what it replaces.
const component = "kube-controller-manager"

// gcPercent lets the heap grow to three times the live data before a collection, unless GOGC says otherwise. As the caches
// are small this costs a few MiB, and under load it halves the time spent on collection.
const gcPercent = 200

// NewControllerManagerCommand returns the command.
func NewControllerManagerCommand() *cobra.Command {
	s := options.NewCMServer()
	s.Controllers = controllers.All(&s.Shared)
	cmd := &cobra.Command{
		Use:   "orrery",
		Short: "Run the control loops of a Kubernetes control plane",
		Long: `Orrery runs the control loops of a Kubernetes control plane in one process. It takes the place of
kube-controller-manager: it has the same flags, takes the same leader lease, uses the same identities and makes the
same changes through the API.`,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			if err := prepare(s); err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			ctx, stop := manager.SignalContext(context.Background())
			defer stop()
			return Run(klog.NewContext(ctx, klog.Background()), s)
		},
	}
	flags := s.Flags()
	verflag.AddFlags(flags.FlagSet("global"))
	// The logging flags are in a section of their own.
	globalflag.AddGlobalFlags(flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, name := range flags.Order {
		cmd.Flags().AddFlagSet(flags.FlagSets[name])
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return s.FlagError(err) })
	cliflag.SetUsageAndHelpFunc(cmd, flags, 0)
	for _, sub := range []*cobra.Command{newControllersCommand(s), newCertificatesCommand(), ask.NewStatusCommand(), ask.NewExplainCommand()} {
		cmd.AddCommand(subcommand(sub))
	}
	return cmd
}

// noArgs refuses arguments other than empty ones, which manifests made from templates may contain.
func noArgs(cmd *cobra.Command, args []string) error {
	return cobra.NoArgs(cmd, slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "" }))
}

// prepare reads the configuration file, checks every setting and logs the settings that the daemon starts with.
func prepare(s *options.CMServer) error {
	if err := s.Complete(); err != nil {
		return err
	}
	if err := s.Validate(s.KnownControllers(), s.DisabledByDefault()); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(s.Logs, s.Gates.FeatureGate()); err != nil {
		return fmt.Errorf("logging flags: %w", err)
	}
	applyMetrics(s.Metrics, s.Gates.FeatureGate())
	clientfeatures.ReplaceFeatureGates(s.Gates.ClientGates())
	s.Gates.FeatureGate().AddMetrics()
	klog.InfoS("Starting", "version", version.Get().String(), "flags", s.EffectiveFlags())
	for _, warning := range s.Warnings() {
		klog.InfoS("Questionable setting", "warning", warning)
	}
	return nil
}

// applyMetrics applies the metrics flags and the feature gates of metrics. It has to run before any histogram is
// registered, as that fixes the histogram's form. Without an allow list, Apply would log an error, so the other flags are
// applied one by one.
func applyMetrics(o *metrics.Options, gates featuregate.FeatureGate) {
	metricsfeatures.ApplyFeatureGates(gates)
	if o.AllowListMapping != nil || o.AllowListMappingManifest != "" {
		o.Apply()
		return
	}
	if o.ShowHiddenMetricsForVersion != "" {
		metrics.SetShowHidden()
	}
	metrics.SetDisabledMetrics(o.DisabledMetrics)
}

func newControllersCommand(s *options.CMServer) *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "List the controllers: names, aliases, whether they are on by default, service accounts, and what they do",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return options.ControllersTable(cmd.OutOrStdout(), s.Controllers, format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "text or json")
	return cmd
}
