package options

import (
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	componentbaseconfig "k8s.io/component-base/config"
)

// notLimited is the default of --kube-api-qps.
const notLimited = -1

// Generic are the settings of the daemon itself.
type Generic struct {
	// Kubeconfig is the file with the API server's address and credentials; empty means the pod's service account.
	Kubeconfig string
	// Master overrides the server's address in Kubeconfig.
	Master string
	// ContentType of requests and, if AcceptContentTypes is empty, of responses.
	ContentType string
	// AcceptContentTypes is the Accept header. It has no flag; the configuration file may set it.
	AcceptContentTypes string
	// QPS limits the requests per second of each client; 0 or less means no limit.
	QPS float32
	// Burst is how many requests may exceed QPS for a moment. It has no effect without QPS.
	Burst int32
	// MinResyncPeriod is accepted, but has no effect: the shared cache does not resync that often.
	MinResyncPeriod metav1.Duration
	// ControllerStartInterval is the pause between the starts of two controllers.
	ControllerStartInterval metav1.Duration
	// ControllerShutdownTimeout is how long the loops may take to stop.
	ControllerShutdownTimeout time.Duration
	// LeaderElection configures the election.
	LeaderElection componentbaseconfig.LeaderElectionConfiguration
	// WarmStandby keeps the caches of a standby filled.
	WarmStandby bool
	// UseServiceAccountCredentials gives each controller its own identity.
	UseServiceAccountCredentials bool
	// Selection is the value of --controllers.
	Selection []string
	// IgnoreUnknownControllers turns an unknown name in Selection into a warning.
	IgnoreUnknownControllers bool
}

// NewGeneric returns the defaults.
func NewGeneric() Generic {
	return Generic{
		ContentType:               "application/vnd.kubernetes.protobuf",
		QPS:                       notLimited,
		Burst:                     30,
		MinResyncPeriod:           metav1.Duration{Duration: 12 * time.Hour},
		ControllerShutdownTimeout: 10 * time.Second,
		LeaderElection: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect:   true,
			LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:  "leases", ResourceName: "kube-controller-manager", ResourceNamespace: "kube-system",
		},
		Selection: []string{"*"},
	}
}

// AddFlags registers the flags of the section "Generic". known and off are the names of the controllers for --help.
func (o *Generic) AddFlags(fs *pflag.FlagSet, known, off []string) {
	fs.StringVar(&o.ContentType, "kube-api-content-type", o.ContentType,
		"Content type of requests to the API server.")
	fs.Float32Var(&o.QPS, "kube-api-qps", o.QPS,
		"Requests per second that each client may send to the API server. 0 or less means no limit: API Priority and Fairness on "+
			"the server decides. kube-controller-manager's default is 20.")
	fs.Int32Var(&o.Burst, "kube-api-burst", o.Burst,
		"Requests that may exceed --kube-api-qps for a moment. Without effect if --kube-api-qps is not limited.")
	fs.DurationVar(&o.MinResyncPeriod.Duration, "min-resync-period", o.MinResyncPeriod.Duration,
		"Accepted because manifests of kube-controller-manager may contain it, but without effect: the shared cache follows its watches and needs no resync.")
	fs.DurationVar(&o.ControllerStartInterval.Duration, "controller-start-interval", o.ControllerStartInterval.Duration,
		"Interval between starting two controllers, randomly increased to up to twice its length.")
	fs.DurationVar(&o.ControllerShutdownTimeout, "controller-shutdown-timeout", o.ControllerShutdownTimeout,
		"How long the controllers may take to stop before the process ends without them.")
	fs.BoolVar(&o.UseServiceAccountCredentials, "use-service-account-credentials", o.UseServiceAccountCredentials,
		"Give each controller the credentials of its own service account.")
	lists := "All controllers: " + strings.Join(known, ", ")
	if len(off) > 0 {
		lists += "\nOff by default: " + strings.Join(off, ", ")
	}
	fs.StringSliceVar(&o.Selection, "controllers", o.Selection,
		"Controllers to run: '*' stands for all that are on by default, 'foo' turns foo on, '-foo' turns it off. The first match wins.\n"+lists)
	fs.BoolVar(&o.IgnoreUnknownControllers, "ignore-unknown-controllers", o.IgnoreUnknownControllers,
		"Log a warning about unknown names in --controllers, instead of refusing to start.")
	addElectionFlags(&o.LeaderElection, fs)
	fs.BoolVar(&o.WarmStandby, "warm-standby", o.WarmStandby,
		"Keep the caches filled while another process leads, so that this one works a moment after it acquires the lease. A standby then "+
			"needs almost as much memory as a leader, and opens the same watches.")
}

// addElectionFlags registers the flags of leader election.
func addElectionFlags(o *componentbaseconfig.LeaderElectionConfiguration, fs *pflag.FlagSet) {
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"Run the controllers only while holding the leader lease, so that only one of several processes runs them.")
	fs.DurationVar(&o.LeaseDuration.Duration, "leader-elect-lease-duration", o.LeaseDuration.Duration,
		"How long a lease that is not renewed keeps other processes from leading.")
	fs.DurationVar(&o.RenewDeadline.Duration, "leader-elect-renew-deadline", o.RenewDeadline.Duration,
		"How long a leader keeps trying to renew its lease before it gives up. Must be less than --leader-elect-lease-duration.")
	fs.DurationVar(&o.RetryPeriod.Duration, "leader-elect-retry-period", o.RetryPeriod.Duration,
		"Time between two attempts to acquire or renew the lease.")
	fs.StringVar(&o.ResourceLock, "leader-elect-resource-lock", o.ResourceLock,
		"Kind of the lease object. Only 'leases' is supported.")
	fs.StringVar(&o.ResourceName, "leader-elect-resource-name", o.ResourceName,
		"Name of the lease object.")
	fs.StringVar(&o.ResourceNamespace, "leader-elect-resource-namespace", o.ResourceNamespace,
		"Namespace of the lease object.")
}

// addMiscFlags registers the flags of the section "Misc".
func (o *Generic) addMiscFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Kubeconfig file with the address of the API server and the credentials to use.")
	fs.StringVar(&o.Master, "master", o.Master,
		"Address of the API server, instead of the one in the kubeconfig.")
}

// Validate reports every problem of the daemon's own settings, except those of Selection: that needs the names of the
// controllers.
func (o *Generic) Validate() []error {
	var errs []error
	if o.QPS > 0 && o.Burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst must be at least 1 where --kube-api-qps is limited (to %v), got %d", o.QPS, o.Burst))
	}
	if !finite(float64(o.QPS)) {
		errs = append(errs, fmt.Errorf("--kube-api-qps must be a number, where 0 or less means not limited, got %v", o.QPS))
	}
	switch media, _, err := mime.ParseMediaType(o.ContentType); {
	case o.ContentType == "":
	case err != nil, media != "application/json" && media != "application/yaml" && media != "application/vnd.kubernetes.protobuf":
		errs = append(errs, fmt.Errorf("--kube-api-content-type must be application/vnd.kubernetes.protobuf, application/json or application/yaml, got %q", o.ContentType))
	}
	for _, f := range []struct {
		flag  string
		value time.Duration
	}{
		{"min-resync-period", o.MinResyncPeriod.Duration},
		{"controller-start-interval", o.ControllerStartInterval.Duration},
		{"controller-shutdown-timeout", o.ControllerShutdownTimeout},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("--%s must be at least 0, got %s", f.flag, f.value))
		}
	}
	if o.LeaderElection.LeaderElect {
		errs = append(errs, validateElection(&o.LeaderElection)...)
	}
	return errs
}

// validateElection checks everything that the leader election, or the API server, would refuse later.
func validateElection(o *componentbaseconfig.LeaderElectionConfiguration) []error {
	var errs []error
	lease, renew, retry := o.LeaseDuration.Duration, o.RenewDeadline.Duration, o.RetryPeriod.Duration
	if o.ResourceLock != "leases" {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock must be leases, got %q", o.ResourceLock))
	}
	// A Lease object has whole seconds.
	if lease < time.Second {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration must be at least 1s, got %s", lease))
	}
	if lease <= renew {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline, got %s and %s", lease, renew))
	}
	if retry <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period must be greater than 0, got %s", retry))
	}
	if least := time.Duration(leaderelection.JitterFactor * float64(retry)); renew <= least {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline must be greater than %v times --leader-elect-retry-period, got %s and %s",
			leaderelection.JitterFactor, renew, retry))
	}
	if problems := validation.IsDNS1123Subdomain(o.ResourceName); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-name must be the name of an object, got %q: %s", o.ResourceName, problems[0]))
	}
	if problems := validation.IsDNS1123Label(o.ResourceNamespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-namespace must be the name of a namespace, got %q: %s", o.ResourceNamespace, problems[0]))
	}
	return errs
}
