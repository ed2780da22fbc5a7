package app

import (
	"fmt"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// userAgent returns the user agent of this program. It names the component that this program replaces, whatever the binary
// is called, because the server derives the field manager from it: rules of deployment tools that ignore the fields of
// kube-controller-manager keep working, and an object that both programs have written has one field manager and not two.
// The part after the platform tells the requests of the two programs apart.
func userAgent(v version.Info) string {
	release, _, _ := strings.Cut(v.GitVersion, "-")
	commit := v.GitCommit[:min(len(v.GitCommit), 7)]
	if commit == "" || strings.HasPrefix(commit, "$") { // the build was not stamped
		commit = "unknown"
	}
	return fmt.Sprintf("%s/%s (%s/%s) orrery/%s", component, release, runtime.GOOS, runtime.GOARCH, commit)
}
