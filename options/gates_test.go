package options

import (
	"strings"
	"testing"

	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
)

func TestGatesHaveUpstreamsDefaults(t *testing.T) {
	gate := mustParse(t).Gates.FeatureGate()
	known := gate.GetAll()
	for _, row := range gateRows() {
		spec, ok := known[featuregate.Feature(row.name)]
		if !ok {
			t.Errorf("%s is not known", row.name)
			continue
		}
		if gate.Enabled(featuregate.Feature(row.name)) != row.on {
			t.Errorf("%s is on = %t, want %t", row.name, !row.on, row.on)
		}
		if stage := map[string]string{"ALPHA": "ALPHA", "BETA": "BETA"}[row.stage]; string(spec.PreRelease) != stage {
			t.Errorf("%s is %q, want %q", row.name, spec.PreRelease, stage)
		}
	}
	for _, name := range []featuregate.Feature{"LoggingAlphaOptions", "ContextualLogging", "NativeHistograms", "WatchListClient", "ClientsAllowCARotation"} {
		if _, ok := known[name]; !ok {
			t.Errorf("%s of a library is not known", name)
		}
	}
}

func TestGatesOfTheClientLibraryFollowTheFlags(t *testing.T) {
	defaults := mustParse(t).Gates.ClientGates()
	given := mustParse(t, "--feature-gates=WatchListClient=false,ClientsAllowCARotation=false,AtomicFIFO=false,ClientsPreferCBOR=true").Gates.ClientGates()
	for _, tc := range []struct {
		name   clientfeatures.Feature
		on     bool
		change bool
	}{
		{clientfeatures.WatchListClient, true, true},
		{clientfeatures.ClientsAllowCARotation, true, true},
		{clientfeatures.ClientsAllowTLSCacheGC, true, false},
		{clientfeatures.UnlockWhileProcessingFIFO, true, false},
		{clientfeatures.InOrderInformersBatchProcess, true, false},
		{clientfeatures.AtomicFIFO, true, false},
		{clientfeatures.InformerResourceVersion, true, false},
		{clientfeatures.InOrderInformers, true, false},
		{clientfeatures.ClientsPreferCBOR, false, false},
		{clientfeatures.ClientsAllowCBOR, false, false},
	} {
		if defaults.Enabled(tc.name) != tc.on || given.Enabled(tc.name) != (tc.on != tc.change) {
			t.Errorf("%s is on = %t by default and %t as given", tc.name, defaults.Enabled(tc.name), given.Enabled(tc.name))
		}
	}
}

func TestGates(t *testing.T) {
	for _, tc := range []struct {
		args     string
		on, off  string
		problems [][]string
		warnings [][]string
	}{
		{args: "--feature-gates=HPAScaleToZero=false,CSIVolumeHealth=true", on: "CSIVolumeHealth", off: "HPAScaleToZero"},
		{args: "--feature-gates=kube:HPAScaleToZero=false --feature-gates=kube:CSIVolumeHealth=1", on: "CSIVolumeHealth", off: "HPAScaleToZero"},
		{args: "--feature-gates=HPAScaleToZero=false --feature-gates=HPAScaleToZero=true", on: "HPAScaleToZero"},
		{args: "--feature-gates=AllAlpha=true,CSIVolumeHealth=false", on: "WorkloadWithJob StorageVersionAPI GenericWorkload", off: "CSIVolumeHealth",
			problems: [][]string{{"WorkloadWithJob", "GenericWorkload"}}},
		{args: "--feature-gates=AllAlpha=true,AllBeta=true,CSIVolumeHealth=false", on: "WorkloadWithJob StorageVersionAPI GenericWorkload", off: "CSIVolumeHealth"},
		{args: "--feature-gates=AllBeta=false,HPAGeneration=true", on: "HPAGeneration", off: "HPAScaleToZero ComponentStatusz"},
		{args: "--feature-gates=", on: "HPAScaleToZero"},
		{args: "--feature-gates=KubeletTracing=true,Invented=false,HPAScaleToZero=false", off: "HPAScaleToZero",
			warnings: [][]string{{"Invented=false"}, {"KubeletTracing=true"}}},
		{args: "--feature-gates=VolumeAttributesClass=true,DRADeviceTaints=false", off: "DRADeviceTaints",
			warnings: [][]string{{"DRADeviceTaints", "generally available"}, {"VolumeAttributesClass"}}},
		{args: "--feature-gates=SeparateTaintEvictionController=false", on: "SeparateTaintEvictionController",
			problems: [][]string{{"SeparateTaintEvictionController must be true"}}, warnings: [][]string{{"SeparateTaintEvictionController"}}},
		{args: "--feature-gates=StorageVersionAPI=true,APIServerIdentity=false",
			problems: [][]string{{"StorageVersionAPI", "APIServerIdentity"}}},
		{args: "--feature-gates=wardle:A=true,kube:B", problems: [][]string{{`"B"`}, {`"wardle:A=true"`, `"kube"`}}},
		{args: "--feature-gates=kube:HPAScaleToZero=true,HPAGeneration=true", problems: [][]string{{"before all gates or before none"}}},
		{args: "--feature-gates==true", problems: [][]string{{`"=true"`}}},
		{args: "--emulated-version=1.36 --min-compatibility-version=kube=1.35", warnings: [][]string{{"--emulated-version=1.36", "no effect"}}},
		{args: "--feature-gates=CoordinatedLeaderElection=true", on: "CoordinatedLeaderElection"},
		{args: "--feature-gates=CoordinatedLeaderElection=true --emulated-version=1.36", on: "CoordinatedLeaderElection",
			warnings: [][]string{{"--emulated-version=1.36", "only says when to lead"}}},
		{args: "--emulated-version=v1.37.0"},
		{args: "--emulated-version=1.35 --min-compatibility-version=1.36", problems: [][]string{{"--min-compatibility-version", "1.34 to 1.35"}},
			warnings: [][]string{{"--emulated-version"}}},
		{args: "--emulated-version=1.37.1", problems: [][]string{{"--emulated-version", "patch"}}},
		{args: "--emulated-version=x", problems: [][]string{{"--emulated-version", `"x"`}}},
		{args: "--emulated-version=2.37", problems: [][]string{{"--emulated-version"}}},
		{args: "--emulated-version=wardle=1.37", problems: [][]string{{"--emulated-version", "wardle"}}},
		{args: "--emulated-version=1.37,kube=1.36", problems: [][]string{{"--emulated-version", "once"}}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			s := mustParse(t, strings.Fields(tc.args)...)
			checkLines(t, text(validate(s)), tc.problems)
			checkLines(t, strings.Join(s.Warnings(), "\n"), tc.warnings)
			if len(tc.problems) > 0 && tc.on == "" {
				return
			}
			gate := s.Gates.FeatureGate()
			for _, name := range strings.Fields(tc.on) {
				if len(tc.problems) == 0 && !gate.Enabled(featuregate.Feature(name)) {
					t.Errorf("%s is off", name)
				}
			}
			for _, name := range strings.Fields(tc.off) {
				if len(tc.problems) == 0 && gate.Enabled(featuregate.Feature(name)) {
					t.Errorf("%s is on", name)
				}
			}
		})
	}
}

func TestGateThatIsGoneCountsAsOn(t *testing.T) {
	gate := NewCMServer().Gates.FeatureGate()
	if !on(gate, "RemovedLongAgo") || on(gate, "GenericWorkload") {
		t.Error("want RemovedLongAgo on and GenericWorkload off")
	}
}

func TestTheEmulatedVersion(t *testing.T) {
	for args, want := range map[string]string{"": "1.37", "--emulated-version=kube=1.35": "1.35", "--emulated-version=9.9": "1.37"} {
		if got := mustParse(t, strings.Fields(args)...).Gates.Emulated(); got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}
