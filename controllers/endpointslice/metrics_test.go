package endpointslice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit/kittest"
)

// scrape lists the counters and gauges, "name{label=value} number" each, and the names of the rest.
func scrape(t *testing.T, registry compmetrics.KubeRegistry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "endpoint_slice_controller_")
		for _, m := range f.GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				label += "{" + l.GetName() + "=" + l.GetValue() + "}"
			}
			switch {
			case m.GetGauge() != nil:
				out = append(out, fmt.Sprintf("%s%s %v", name, label, m.GetGauge().GetValue()))
			case m.GetCounter() != nil && name != "syncs":
				out = append(out, fmt.Sprintf("%s%s %v", name, label, m.GetCounter().GetValue()))
			default:
				out = append(out, name+label)
			}
		}
	}
	return strings.Join(out, "\n")
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := compmetrics.NewKubeRegistry()
		api := kittest.New(t, node("n1", "z1"))
		cc := api.Context(Name)
		cc.Register = func(all ...compmetrics.Registerable) { registry.MustRegister(all...) }
		o := &options{workers: 1, maxEndpoints: 3}
		for i := range 4 {
			api.Create(t, pod("web", fmt.Sprint("w", i), fmt.Sprintf("10.1.0.%d", i+1)))
		}
		close := corev1.ServiceTrafficDistributionPreferClose
		web := service("web", func(s *corev1.Service) { s.Spec.TrafficDistribution = &close })
		api.Create(t, web)
		api.Create(t, service("db"))
		api.Create(t, service("empty"))
		gone := service("gone")
		gone.Spec.Selector = nil
		api.Create(t, gone)
		api.RunIn(t, cc, o.init)
		api.Settle()
		api.Create(t, pod("db", "d", "10.1.0.9"))
		api.Settle()
		want := `changes{operation=create} 4
changes{operation=update} 1
desired_endpoint_slices 4
endpoints_added_per_sync
endpoints_desired 5
endpoints_removed_per_sync
endpointslices_changed_per_sync{topology=Disabled}{traffic_distribution=}
endpointslices_changed_per_sync{topology=Disabled}{traffic_distribution=PreferClose}
num_endpoint_slices 4
services_count_by_traffic_distribution{traffic_distribution=PreferClose} 1
syncs{result=success}`
		if got := scrape(t, registry); got != want {
			t.Errorf("metrics\n%s\nwant\n%s", got, want)
		}
		api.Remove(t, web)
		api.Settle()
		want = strings.NewReplacer("slices 4", "slices 2", "desired 5", "desired 1", "PreferClose} 1", "PreferClose} 0").Replace(want)
		if got := scrape(t, registry); got != want {
			t.Errorf("metrics after a Service is gone\n%s\nwant\n%s", got, want)
		}
	})
}

// TestMetricsOfAFamilyThatIsDropped: when a Service drops a family, its contribution to the gauges is removed.
func TestMetricsOfAFamilyThatIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := compmetrics.NewKubeRegistry()
		api := kittest.New(t, node("n1", "z1"))
		cc := api.Context(Name)
		cc.Register = func(all ...compmetrics.Registerable) { registry.MustRegister(all...) }
		o := &options{workers: 1, maxEndpoints: 3}
		both := pod("web", "w0", "10.1.0.1")
		both.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.1"}, {IP: "fd00::1"}}
		api.Create(t, both)
		web := service("web", dual)
		api.Create(t, web)
		api.RunIn(t, cc, o.init)
		api.Settle()
		gauges := func() (out []string) {
			for _, line := range strings.Split(scrape(t, registry), "\n") {
				if name, _, _ := strings.Cut(line, " "); name == "num_endpoint_slices" || strings.Contains(name, "desired") {
					out = append(out, line)
				}
			}
			return out
		}
		if got, want := gauges(), []string{"desired_endpoint_slices 2", "endpoints_desired 2", "num_endpoint_slices 2"}; !slices.Equal(got, want) {
			t.Errorf("gauges of both families: %q, want %q", got, want)
		}
		web.Spec.IPFamilies = web.Spec.IPFamilies[:1]
		api.Update(t, web)
		api.Settle()
		if got, want := gauges(), []string{"desired_endpoint_slices 1", "endpoints_desired 1", "num_endpoint_slices 1"}; !slices.Equal(got, want) {
			t.Errorf("gauges of the family that is left: %q, want %q", got, want)
		}
	})
}

// TestSyncsAreCountedByResult: writes that are rejected because the namespace is terminating are not counted as errors.
func TestSyncsAreCountedByResult(t *testing.T) {
	going := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "web-1", errors.New("its namespace goes"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	conflict := apierrors.NewConflict(discoveryv1.Resource("endpointslices"), "web-1", errors.New("somebody wrote"))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nothing":                 {nil, "success"},
		"namespace going":         {fmt.Errorf("create: %w", going), "success"},
		"in both families":        {errors.Join(errors.Join(nil, fmt.Errorf("a: %w", going)), going), "success"},
		"conflict":                {conflict, "error"},
		"going, and another":      {errors.Join(going, errors.New("node n1 not found")), "error"},
		"forbidden, for a policy": {apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "web-1", errors.New("policy")), "error"},
	} {
		registry, m := compmetrics.NewKubeRegistry(), newMetrics(100)
		registry.MustRegister(m.registerables()...)
		m.synced(c.err)
		if got := scrape(t, registry); !strings.Contains(got, "syncs{result="+c.want+"}") || strings.Count(got, "syncs") != 1 {
			t.Errorf("%s: counted as\n%s\nwant %s", name, got, c.want)
		}
	}
}
