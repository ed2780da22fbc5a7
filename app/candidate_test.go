package app

import (
	"runtime/debug"
	"testing"

	"orrery/options"
)

func TestTheReleaseIsThatOfTheLibraries(t *testing.T) {
	for version, want := range map[string]string{
		"v0.37.2": "1.37.2", "v0.37.11": "1.37.11", "v0.36.1": "1.37.0", "v0.37.0-rc.1": "1.37.0", "v1.5.2": "1.37.0", "": "1.37.0",
	} {
		info := &debug.BuildInfo{Deps: []*debug.Module{{Path: "k8s.io/utils", Version: "v0.37.9"}, {Path: "k8s.io/client-go", Version: version}}}
		if got := releaseOf(info); got != want {
			t.Errorf("%q: got %s, want %s", version, got, want)
		}
	}
	if got := releaseOf(nil); got != "1.37.0" {
		t.Errorf("without information: %s", got)
	}
}

func TestOnlyTheGateLetsTheServerChoose(t *testing.T) {
	s := options.NewCMServer()
	if coordinated(s) != nil {
		t.Error("without the gate")
	}
	s.Gates.Given = map[string][]string{"": {"CoordinatedLeaderElection=true"}}
	s.Gates.EmulatedVersion = []string{"1.36"}
	if v := coordinated(s); v == nil || v.Emulation != "1.36.0" {
		t.Errorf("with it: %+v", v)
	}
	s.DryRun = true
	if coordinated(s) != nil {
		t.Error("a dry run stands for election")
	}
}
