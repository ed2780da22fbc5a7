// Command orrery runs the control loops of a Kubernetes control plane.
package main

import (
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // for servers with public certificates, in images that have no list of authorities
	"k8s.io/component-base/cli"

	"orrery/app"
)

func main() {
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
