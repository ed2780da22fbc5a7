package manager

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// MissingKinds returns the kinds that the server does not have now. A kind counts as missing if the server does not answer.
func MissingKinds(d discovery.ServerResourcesInterface, kinds []schema.GroupVersionKind) (missing []string) {
	for _, gvk := range kinds {
		if has, err := client.Served(d, gvk); err != nil || !has {
			missing = append(missing, gvk.GroupKind().String()+"/"+gvk.Version)
		}
	}
	return missing
}

// WaitForKinds builds a controller as soon as the server has all kinds that its descriptor names. It logs once that it
// waits. A build that fails because a kind has gone again is retried.
func WaitForKinds(ctx context.Context, log klog.Logger, d discovery.ServerResourcesInterface, of kit.Descriptor, build func() error) error {
	if missing := MissingKinds(d, of.Kinds); len(missing) > 0 {
		log.Info("Controller waits for kinds that the API server does not have yet", "controller", of.Name, "kinds", strings.Join(missing, ", "))
	}
	for {
		if len(MissingKinds(d, of.Kinds)) == 0 {
			err := build()
			if err == nil {
				log.Info("Started controller", "controller", of.Name)
				return nil
			}
			if len(MissingKinds(d, of.Kinds)) == 0 {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(kindPoll):
		}
	}
}
