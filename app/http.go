package app

import (
	"context"
	"time"

	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* and leader_election_* metrics
	"k8s.io/component-base/metrics/prometheus/clientgo/fifo"
	"k8s.io/component-base/metrics/prometheus/compatversion"
	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"orrery/app/serving"
)

// The Kubernetes version that this program is equal to, and the oldest that it can work beside.
const (
	kubeVersion      = "1.37"
	minCompatVersion = "1.36"
)

// startHTTP serves HTTPS until the returned function is called.
func (d *daemon) startHTTP(ctx context.Context) (stop func(), err error) {
	s := d.options
	fifo.Register() // informer_* metrics
	compatversion.RecordCompatVersionInfo(ctx, "kube", kubeVersion, kubeVersion, minCompatVersion)
	mux := serving.NewMux()
	serving.Endpoints{
		Component: component, Health: d.health,
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
		Controllers: d,
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
		return func() {}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "The HTTPS server ended")
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
		}
	}, nil
}
