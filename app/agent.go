package app

import (
	"fmt"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// userAgent returns how this program names itself to the server: as the component whose place it takes, whatever its file
// is called. The server notes that name with the fields that it manages: the rules of a deployment tool for fields to leave
// alone need not change, and an object that both programs have written has one manager and not two. What stands behind the
// platform says which of the two a request is from.
func userAgent(v version.Info) string {
	release, _, _ := strings.Cut(v.GitVersion, "-")
	commit := v.GitCommit[:min(len(v.GitCommit), 7)]
	if commit == "" || strings.HasPrefix(commit, "$") { // of a build without a stamp
		commit = "unknown"
	}
	return fmt.Sprintf("%s/%s (%s/%s) orrery/%s", component, release, runtime.GOOS, runtime.GOARCH, commit)
}
