package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit/httpx"
)

// certificate is a serving certificate and its key, from files that may change.
type certificate struct {
	certFile, keyFile string
	log               klog.Logger
	pair              httpx.KeyPair
}

// load reloads the files. On an error the current certificate stays in use.
func (c *certificate) load() (changed bool, err error) {
	if changed, err = c.pair.Load(c.certFile, c.keyFile); err != nil {
		return false, fmt.Errorf("load %s and %s: %w", c.certFile, c.keyFile, err)
	}
	return changed, nil
}

// watch reloads the files periodically. It does not rely on file system notifications, which miss changes on some mounts. A
// lasting error is logged once.
func (c *certificate) watch(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		changed, err := c.load()
		if changed {
			c.log.Info("Webhook certificate loaded again because it changed", "file", c.certFile)
		}
		if err == nil {
			said = ""
			continue
		}
		if err.Error() != said {
			said = err.Error()
			c.log.Error(err, "Webhook certificate not loaded again; the last one stays in use")
		}
	}
}

// get returns the certificate for a handshake.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.pair.Current(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("no certificate is loaded")
}
