package app

import (
	"context"
	"maps"
	"runtime/debug"
	"slices"

	"k8s.io/component-base/metrics/prometheus/compatversion"

	"orrery/app/serving"
	"orrery/kit/manager"
	"orrery/options"
)

// kubeVersion is the Kubernetes version whose kube-controller-manager this program replaces.
const kubeVersion = "1.37"

// versions are those that the HTTP pages and the metrics show.
type versions struct{ binary, emulated, oldest string }

func versionsOf(s *options.CMServer, info *debug.BuildInfo) versions {
	return versions{releaseOf(info), s.Gates.Emulated(), s.Gates.OldestCompatible()}
}

// addHTTP binds the HTTPS port and adds its server to the manager. It does nothing if HTTPS is turned off.
func (d *daemon) addHTTP(ctx context.Context) error {
	s := d.options
	info, _ := debug.ReadBuildInfo()
	v := versionsOf(s, info)
	compatversion.RecordCompatVersionInfo(ctx, "kube", v.binary, v.emulated, v.oldest)
	mux := serving.NewMux()
	serving.Endpoints{
		Component: component, Health: d.manager.Checks(),
		Configz: func() map[string]any { return map[string]any{"kubecontrollermanager.config.k8s.io": s.Configz()} },
		Flags: func() map[string]string {
			return serving.FlagValues(slices.Collect(maps.Values(s.Flags().FlagSets))...)
		},
		Status:    &serving.Status{BinaryVersion: v.binary, EmulationVersion: v.emulated},
		Profiling: s.Debugging.Profiling, ContentionProfiling: s.Debugging.ContentionProfiling,
		Controllers: d.status,
	}.Install(mux)
	for _, c := range s.Controllers {
		for page, handler := range c.Pages {
			mux.HandleUnlisted("/debug/controllers/"+c.Name+"/"+page, handler)
		}
	}
	server, err := serving.New(ctx, serving.Config{
		Secure: s.SecureServing, Authentication: s.Authentication, Authorization: s.Authorization, Handler: mux,
	})
	if err != nil || server == nil {
		return err
	}
	return d.manager.AddServer(manager.Func("HTTPS server", server.Run))
}
