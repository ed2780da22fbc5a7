// Command orrery runs the control loops of a Kubernetes control plane.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"orrery/app"
)

func main() {
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
