package app

import (
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"orrery/kit/client"
)

func TestTheServerKnowsUsAsTheProgramWhosePlaceWeTake(t *testing.T) {
	platform := " (" + runtime.GOOS + "/" + runtime.GOARCH + ") "
	for name, tc := range map[string]struct {
		version version.Info
		want    string
	}{
		"a release":       {version.Info{GitVersion: "v1.37.2+orrery.0123456", GitCommit: "0123456789abcdef"}, "kube-controller-manager/v1.37.2+orrery.0123456" + platform + "orrery/0123456"},
		"without a stamp": {version.Info{GitVersion: "v0.0.0-master+$Format:%H$", GitCommit: "$Format:%H$"}, "kube-controller-manager/v0.0.0" + platform + "orrery/unknown"},
		"nothing":         {version.Info{}, "kube-controller-manager/" + platform + "orrery/unknown"},
	} {
		if got := userAgent(tc.version); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	config := client.AddAgent(&rest.Config{UserAgent: "a/1 (x) orrery/2"}, "deployment-controller")
	if config.UserAgent != "a/1 (x) orrery/2/deployment-controller" {
		t.Errorf("with a part: %q", config.UserAgent)
	}
	if got, want := client.AddAgent(&rest.Config{}, "p").UserAgent, rest.DefaultKubernetesUserAgent()+"/p"; got != want {
		t.Errorf("without an agent: %q, want %q", got, want)
	}
}
