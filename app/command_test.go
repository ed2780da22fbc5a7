package app

import (
	"testing"

	"k8s.io/component-base/metrics"

	"orrery/options"
)

func TestEmptyArgumentsAreNone(t *testing.T) {
	cmd := NewControllerManagerCommand()
	for _, tc := range []struct {
		args []string
		ok   bool
	}{
		{nil, true}, {[]string{""}, true}, {[]string{"", "--profiling=false", ""}, true},
		{[]string{"run"}, false}, {[]string{"", "run"}, false},
	} {
		found, rest, err := cmd.Find(tc.args)
		if err == nil {
			if err = found.ParseFlags(rest); err == nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
		}
		if (err == nil) != tc.ok || err == nil && found != cmd {
			t.Errorf("%q: %v, want it taken: %t", tc.args, err, tc.ok)
		}
	}
}

// TestHistogramsAreNativeUnlessTheGateIsOff looks at one that is registered after the flags have been read, as all are.
func TestHistogramsAreNativeUnlessTheGateIsOff(t *testing.T) {
	defaults := &options.Gates{}
	t.Cleanup(func() { applyMetrics(metrics.NewOptions(), defaults.FeatureGate()) })
	for _, tc := range []struct {
		gates  *options.Gates
		native bool
	}{
		{&options.Gates{Given: map[string][]string{"": {"NativeHistograms=false"}}}, false},
		{defaults, true},
	} {
		applyMetrics(metrics.NewOptions(), tc.gates.FeatureGate())
		h := metrics.NewHistogram(&metrics.HistogramOpts{Name: "took_seconds", Buckets: []float64{1, 10}})
		registry := metrics.NewKubeRegistry()
		registry.MustRegister(h)
		h.Observe(3)
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatal(families, err)
		}
		got := families[0].Metric[0].Histogram
		if native := len(got.PositiveSpan) > 0; native != tc.native || len(got.Bucket) == 0 {
			t.Errorf("%v: native %t, want %t, beside the buckets that it always has: %v", tc.gates.Given, native, tc.native, got)
		}
	}
}
