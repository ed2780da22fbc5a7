package app

import (
	"runtime/debug"
	"strings"

	"orrery/kit/leader"
	"orrery/options"
)

// coordinated says by which versions the API server is to choose the leader; nil if whoever gets the lease first leads. A
// dry run leads nothing.
func coordinated(s *options.CMServer) *leader.Versions {
	if s.DryRun || !s.Gates.FeatureGate().Enabled(options.CoordinatedLeaderElection) {
		return nil
	}
	info, _ := debug.ReadBuildInfo()
	return &leader.Versions{Binary: releaseOf(info), Emulation: s.Gates.Emulated() + ".0"}
}

// releaseOf returns the release of Kubernetes that a program is equal to, as major.minor.patch: that of the libraries which
// it is made with. kube-controller-manager says the same of itself, so that neither is preferred to the other.
func releaseOf(info *debug.BuildInfo) string {
	if info != nil {
		for _, m := range info.Deps {
			if minor, ok := strings.CutPrefix(m.Version, "v0."); ok && m.Path == "k8s.io/client-go" && m.Replace == nil &&
				strings.HasPrefix("1."+minor, kubeVersion+".") && !strings.ContainsAny(minor, "-+") {
				return "1." + minor
			}
		}
	}
	return kubeVersion + ".0"
}
