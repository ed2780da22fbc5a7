package options

import (
	"fmt"

	"github.com/spf13/pflag"
)

// Webhooks says where the admission webhooks of Orrery's own kinds are served. Every process serves them, leader or not.
type Webhooks struct {
	// CertDir holds tls.crt and tls.key; empty means that no webhook is served.
	CertDir string
	// BindAddress is empty for all addresses.
	BindAddress string
	// Port is 9443 by default.
	Port int
}

// AddFlags registers the flags.
func (o *Webhooks) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.CertDir, "webhook-cert-dir", o.CertDir,
		"Folder with tls.crt and tls.key for the webhook of NodePools. Empty: the webhook is not served. 'orrery certificates' creates such a folder.")
	fs.StringVar(&o.BindAddress, "webhook-bind-address", o.BindAddress,
		"Address on which the webhook is served. Empty: all addresses.")
	fs.IntVar(&o.Port, "webhook-port", o.Port,
		"Port on which the webhook is served.")
}

// Validate reports every problem of the settings.
func (o *Webhooks) Validate() []error {
	if o.Port < 1 || o.Port > 65535 {
		return []error{fmt.Errorf("--webhook-port must be 1 to 65535, got %d", o.Port)}
	}
	return nil
}
