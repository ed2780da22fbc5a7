package app

import (
	"runtime/debug"
	"strings"

	"orrery/kit/leader"
	"orrery/options"
)

// coordinated returns the versions by which the API server chooses the leader, or nil if whoever gets the lease first
// leads. A dry run must not be chosen.
func coordinated(s *options.CMServer) *leader.Versions {
	if s.DryRun || !s.Gates.FeatureGate().Enabled(options.CoordinatedLeaderElection) {
		return nil
	}
	info, _ := debug.ReadBuildInfo()
	return &leader.Versions{Binary: releaseOf(info), Emulation: s.Gates.Emulated() + ".0"}
}

// releaseOf returns the Kubernetes release of a program as major.minor.patch: that of the Kubernetes libraries in it.
// kube-controller-manager of that release announces the same, so that the API server prefers neither to the other.
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
