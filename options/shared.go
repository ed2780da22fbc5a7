package options

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	netutils "k8s.io/utils/net"
)

// Shared are the settings that several controllers read. Each has one flag.
type Shared struct {
	// RootCAFile is the CA bundle published to every namespace and written into token secrets; empty means none.
	RootCAFile string
	// ServiceAccountKeyFile is the private key that signs secret-based service account tokens; empty means none.
	ServiceAccountKeyFile string
	// ServiceAccountTokenSyncs is the number of service accounts, and of token secrets, that are reconciled concurrently.
	ServiceAccountTokenSyncs int32
	// Cloud describes the cluster's network to controllers that allocate addresses and routes.
	Cloud Cloud
}

// Cloud are the settings that upstream shares with cloud controller managers.
type Cloud struct {
	// Provider is empty or "external".
	Provider string
	// ConfigFile of the provider.
	ConfigFile string
	// ExternalVolumePlugin names the volume plugin of an external provider.
	ExternalVolumePlugin string
	// AllocateNodeCIDRs allocates a range of pod addresses from ClusterCIDR to every node.
	AllocateNodeCIDRs bool
	// CIDRAllocatorType says who allocates the ranges; only RangeAllocator is left.
	CIDRAllocatorType string
	// ClusterCIDR is one range of pod addresses, or two of different families separated by a comma.
	ClusterCIDR string
	// ClusterName is the prefix for the names of what a provider creates.
	ClusterName string
	// ConfigureRoutes makes the provider configure routes to the ranges of the nodes.
	ConfigureRoutes bool
	// RouteReconciliationPeriod is how often a provider's routes are compared with the nodes.
	RouteReconciliationPeriod time.Duration

	// allowUntagged and nodeSyncPeriod hold two deprecated flags without effect.
	allowUntagged  bool
	nodeSyncPeriod time.Duration
}

// rangeAllocator is the only CIDR allocator that is left since providers moved out of the tree.
const rangeAllocator = "RangeAllocator"

// NewShared returns the defaults.
func NewShared() Shared {
	return Shared{
		ServiceAccountTokenSyncs: 5,
		Cloud: Cloud{
			CIDRAllocatorType: rangeAllocator, ClusterName: "kubernetes", ConfigureRoutes: true,
			RouteReconciliationPeriod: 10 * time.Second,
		},
	}
}

// AddFlags registers the flags of service accounts, in the section of the service account controller.
func (o *Shared) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.RootCAFile, "root-ca-file", o.RootCAFile,
		"PEM file of the certificate authorities that pods trust to reach the API server. It is published in every namespace and put into "+
			"token secrets, and read again when it changes.")
	fs.StringVar(&o.ServiceAccountKeyFile, "service-account-private-key-file", o.ServiceAccountKeyFile,
		"PEM file of the RSA or ECDSA private key that signs the tokens in token secrets. Without it there are no such tokens.")
	fs.Int32Var(&o.ServiceAccountTokenSyncs, "concurrent-serviceaccount-token-syncs", o.ServiceAccountTokenSyncs,
		"Number of service accounts and of token secrets handled at once.")
}

// Validate reports every problem, each with flag, value and what would be right. ranges says whether pod addresses are
// allocated; otherwise nobody reads the ranges.
func (o *Shared) Validate(ranges bool) []error {
	errs := o.Cloud.Validate()
	if ranges {
		errs = append(errs, o.Cloud.validateRanges()...)
	}
	if o.ServiceAccountTokenSyncs < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-serviceaccount-token-syncs must be at least 1, got %d", o.ServiceAccountTokenSyncs))
	}
	// Read it now, so that a broken file is noticed at the start, and not when a standby becomes the leader.
	if o.RootCAFile != "" {
		if _, err := cert.CertsFromFile(o.RootCAFile); err != nil {
			errs = append(errs, fmt.Errorf("--root-ca-file must be a PEM file of certificates: %w", err))
		}
	}
	if o.ServiceAccountKeyFile != "" {
		if _, err := keyutil.PrivateKeyFromFile(o.ServiceAccountKeyFile); err != nil {
			errs = append(errs, fmt.Errorf("--service-account-private-key-file must be a PEM file of an RSA or ECDSA private key: %w", err))
		}
	}
	return errs
}

// AddFlags registers the flags, which are in the section "Generic".
func (o *Cloud) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Provider, "cloud-provider", o.Provider,
		"Empty, or \"external\" where a cloud controller manager runs beside this one.")
	fs.StringVar(&o.ConfigFile, "cloud-config", o.ConfigFile,
		"Configuration file of the cloud provider.")
	fs.StringVar(&o.ExternalVolumePlugin, "external-cloud-volume-plugin", o.ExternalVolumePlugin,
		"Volume plugin to use with --cloud-provider=external.")
	fs.BoolVar(&o.AllocateNodeCIDRs, "allocate-node-cidrs", o.AllocateNodeCIDRs,
		"Give every node a range of pod addresses out of --cluster-cidr, which is then required.")
	fs.StringVar(&o.CIDRAllocatorType, "cidr-allocator-type", o.CIDRAllocatorType,
		"Who hands out the ranges of --allocate-node-cidrs. Only "+rangeAllocator+" is left.")
	fs.StringVar(&o.ClusterCIDR, "cluster-cidr", o.ClusterCIDR,
		"Range of pod addresses in the cluster, or one IPv4 and one IPv6 range separated by a comma. Used with --allocate-node-cidrs=true.")
	fs.StringVar(&o.ClusterName, "cluster-name", o.ClusterName,
		"Prefix of what a cloud provider creates for the cluster.")
	fs.BoolVar(&o.ConfigureRoutes, "configure-cloud-routes", o.ConfigureRoutes,
		"Make the cloud provider route the ranges of --allocate-node-cidrs.")
	fs.DurationVar(&o.RouteReconciliationPeriod, "route-reconciliation-period", o.RouteReconciliationPeriod,
		"How often the routes of the cloud provider are compared with the nodes.")
	fs.BoolVar(&o.allowUntagged, "allow-untagged-cloud", o.allowUntagged, "Does nothing.")
	fs.DurationVar(&o.nodeSyncPeriod, "node-sync-period", o.nodeSyncPeriod, "Does nothing.")
	for _, name := range []string{"allow-untagged-cloud", "node-sync-period"} {
		fs.Lookup(name).Deprecated = "it does nothing and will be removed"
		fs.Lookup(name).Hidden = true
	}
}

// Validate reports every problem of the settings but the ranges, each with flag, value and what would be right.
func (o *Cloud) Validate() []error {
	var errs []error
	if o.Provider != "" && o.Provider != "external" {
		errs = append(errs, fmt.Errorf("--cloud-provider must be empty or \"external\", since providers are not built in any more, got %q", o.Provider))
	}
	if t := o.CIDRAllocatorType; t != "" && t != rangeAllocator {
		errs = append(errs, fmt.Errorf("--cidr-allocator-type must be %s, since cloud providers are not built in any more, got %q", rangeAllocator, t))
	}
	return errs
}

func (o *Cloud) validateRanges() []error {
	var errs []error
	if o.AllocateNodeCIDRs && o.ClusterCIDR == "" {
		errs = append(errs, fmt.Errorf("--allocate-node-cidrs=true needs --cluster-cidr, as in 10.244.0.0/16, which is empty"))
	}
	return append(errs, validateCIDRs("cluster-cidr", o.ClusterCIDR)...)
}

// validateCIDRs checks a flag that takes one range, or one per IP family. Empty is fine.
func validateCIDRs(flag, value string) []error {
	if value == "" {
		return nil
	}
	var errs []error
	parts := strings.Split(strings.TrimSpace(value), ",")
	families := map[bool]int{}
	for _, part := range parts {
		_, cidr, err := netutils.ParseCIDRSloppy(part)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s must be a range such as 10.244.0.0/16, or an IPv4 and an IPv6 range separated by a comma, got %q", flag, part))
			continue
		}
		families[netutils.IsIPv6CIDR(cidr)]++
	}
	if len(parts) > 2 || families[true] > 1 || families[false] > 1 {
		errs = append(errs, fmt.Errorf("--%s must have at most one IPv4 and one IPv6 range, got %q", flag, value))
	}
	return errs
}
