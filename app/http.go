package app

import (
	"context"
	"runtime/debug"

	"k8s.io/component-base/metrics/prometheus/compatversion"

	"orrery/app/serving"
	"orrery/kit/manager"
	"orrery/options"
)

// kubeVersion is the Kubernetes version that this program is equal to.
const kubeVersion = "1.37"

// versions are those of which the HTTP pages and the metrics tell.
type versions struct{ binary, emulated, oldest string }

func versionsOf(s *options.CMServer, info *debug.BuildInfo) versions {
	return versions{releaseOf(info), s.Gates.Emulated(), s.Gates.OldestCompatible()}
}

// addHTTP binds the HTTPS port and has the manager serve on it. It does nothing where HTTPS is turned off.
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
			sets := s.Flags()
			values := map[string]string{}
			for _, name := range sets.Order {
				for k, v := range serving.FlagValues(sets.FlagSets[name]) {
					values[k] = v
				}
			}
			return values
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
