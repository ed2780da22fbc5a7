// Command localcluster runs a Kubernetes control plane on this machine, with
// fake nodes, for developing and testing controller managers.
package main

import (
	"os"

	"orrery/hack/localcluster/internal/command"
)

func main() {
	os.Exit(command.Run(os.Args[1:], os.Stdout, os.Stderr))
}
