package app

import (
	"fmt"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// managerName is the name under which the server notes who manages a field, and who has asked for something: that of the
// program whose place this one takes, whatever its file is called. What reads it, as the rules of a deployment tool for
// fields to leave alone, need not change; and an object that both have written has one manager and not two.
const managerName = "kube-controller-manager"

// userAgent returns how this program names itself to the server. What stands behind the platform says which of the two
// programs a request is from.
func userAgent(v version.Info) string {
	release, _, _ := strings.Cut(v.GitVersion, "-")
	commit := v.GitCommit[:min(len(v.GitCommit), 7)]
	if commit == "" || strings.HasPrefix(commit, "$") { // of a build without a stamp
		commit = "unknown"
	}
	return fmt.Sprintf("%s/%s (%s/%s) orrery/%s", managerName, release, runtime.GOOS, runtime.GOARCH, commit)
}
