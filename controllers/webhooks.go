package controllers

import (
	"k8s.io/apimachinery/pkg/runtime"

	"orrery/api/nodes/v1alpha1"
	"orrery/controllers/nodepool"
	"orrery/kit/client"
	"orrery/kit/webhook"
)

// WebhookScheme returns the Go types of the kinds that have webhooks.
func WebhookScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, v1alpha1.AddToScheme(s)
}

// AddWebhooks serves the webhooks of Orrery's own kinds. They read what they compare with through live.
func AddWebhooks(s *webhook.Server, live *client.Client) error {
	return webhook.Add(s, nodepool.Webhook(live))
}
