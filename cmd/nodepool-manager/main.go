// Command nodepool-manager is the NodePool controller by itself, with its webhook: for clusters whose controller manager
// stays upstream's, and as an example of a stand-alone operator.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool"
	"orrery/kit"
	"orrery/kit/manager"
	"orrery/kit/webhook"
)

func main() {
	controller := nodepool.Descriptor()
	o := manager.Options{Name: "nodepool-manager", Scheme: runtime.NewScheme(), Cache: manager.Cache{Slim: nodepool.Slimming()}}
	var hooks webhook.Options
	kubeconfig := pflag.String("kubeconfig", "", "kubeconfig file; empty: $KUBECONFIG, or the pod's own account")
	pflag.StringVar(&o.Metrics.Address, "metrics-bind-address", ":8080", "address of /metrics; 0: none")
	pflag.StringVar(&o.Health.Address, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0: none")
	pflag.BoolVar(&o.Election.Enabled, "leader-elect", false, "run one of several processes at a time")
	pflag.StringVar(&o.Election.Namespace, "leader-elect-namespace", "", "namespace of the lease; empty: that of the pod")
	pflag.StringVar(&hooks.CertDir, "webhook-cert-dir", "", "folder with tls.crt and tls.key; empty: no webhook")
	pflag.IntVar(&hooks.Port, "webhook-port", webhook.DefaultPort, "port of the webhook")
	controller.AddFlags(pflag.CommandLine)
	pflag.Parse()
	if hooks.CertDir != "" {
		o.Webhook = &hooks
	}
	err := errors.Join(clientscheme.AddToScheme(o.Scheme), v1alpha1.AddToScheme(o.Scheme))
	if err == nil {
		err = run(*kubeconfig, o, controller)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, o manager.Options, controller kit.Descriptor) error {
	config, err := manager.LoadConfig(kubeconfig)
	if err != nil {
		return err
	}
	m, err := manager.New(config, o)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.AddDescriptor(controller); err != nil {
		return err
	}
	if s := m.Webhooks(); s != nil {
		if err := webhook.Add(s, nodepool.Webhook(m.Live())); err != nil {
			return err
		}
	}
	ctx, stop := manager.SignalContext(context.Background())
	defer stop()
	return m.Start(ctx)
}
