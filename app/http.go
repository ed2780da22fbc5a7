package app

import (
	"context"

	"k8s.io/component-base/metrics/prometheus/compatversion"
	"k8s.io/component-base/version"

	"orrery/app/serving"
	"orrery/kit/manager"
)

// The Kubernetes version that this program is equal to, and the oldest that it can work beside.
const (
	kubeVersion      = "1.37"
	minCompatVersion = "1.36"
)

// addHTTP binds the HTTPS port and has the manager serve on it. It does nothing where HTTPS is turned off.
func (d *daemon) addHTTP(ctx context.Context) error {
	s := d.options
	compatversion.RecordCompatVersionInfo(ctx, "kube", kubeVersion, kubeVersion, minCompatVersion)
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
		Status:    &serving.Status{BinaryVersion: version.Get().GitVersion},
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
