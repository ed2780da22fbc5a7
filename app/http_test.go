package app

import (
	"runtime/debug"
	"testing"

	"orrery/options"
)

func TestTheVersionsThatThePagesTell(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.37.2"}}}
	for _, tc := range []struct {
		emulated, oldest []string
		want             versions
	}{
		{nil, nil, versions{"1.37.2", "1.37", "1.36"}},
		{[]string{"1.36"}, nil, versions{"1.37.2", "1.36", "1.35"}},
		{[]string{"kube=1.36"}, []string{"1.34"}, versions{"1.37.2", "1.36", "1.34"}},
		{[]string{"1.34"}, nil, versions{"1.37.2", "1.34", "1.34"}},
	} {
		s := options.NewCMServer()
		s.Gates.EmulatedVersion, s.Gates.MinCompatibilityVersion = tc.emulated, tc.oldest
		if got := versionsOf(s, info); got != tc.want {
			t.Errorf("%q %q: %+v, want %+v", tc.emulated, tc.oldest, got, tc.want)
		}
	}
}
