package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// certificate is a serving certificate and its key, from files that may change.
type certificate struct {
	certFile, keyFile string
	log               klog.Logger

	// cert and key are the bytes last loaded; only load uses them, and one goroutine at a time calls it.
	cert, key []byte
	current   atomic.Pointer[tls.Certificate]
}

// load reads the files again. On an error the certificate in use stays.
func (c *certificate) load() (changed bool, err error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, err
	}
	if bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.cert, c.key = cert, key
	c.current.Store(&pair)
	return true, nil
}

// watch looks now and then whether the files have changed. That needs no notification from the kernel, which misses
// changes on some mounts. A lasting error is logged once.
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
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			c.log.Error(err, "Webhook certificate not loaded again; the last one stays in use")
		case changed:
			said = ""
			c.log.Info("Webhook certificate loaded again because it changed", "file", c.certFile)
		}
	}
}

// get returns the certificate for a handshake.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("no certificate is loaded")
}
