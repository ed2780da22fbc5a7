package manager

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	waitPoll  = 250 * time.Millisecond
	waitSay   = 5 * time.Second
	waitTries = 15 * time.Second // how long a refusal may be due to a server that is still setting itself up
)

// errNoRoles is logged while a server that has just come up refuses requests. It keeps readers of the log from looking for
// missing permissions; if the refusal lasts, the final error names them.
var errNoRoles = errors.New("it answers, and does not know this user's roles yet")

// waitForServer returns once the API server answers requests under the process's own identity. The server may come up
// after this process, so it waits for one that does not answer, with a line in the log every few seconds. What no waiting
// can cure (a certificate that does not verify, credentials that are refused) is an error.
func waitForServer(ctx context.Context, config *rest.Config, s Server, log klog.Logger) error {
	quick := rest.CopyConfig(config)
	quick.Timeout = 10 * time.Second
	d, err := discovery.NewDiscoveryClientForConfig(quick)
	if err != nil {
		return fmt.Errorf("client for %s: %w", config.Host, err)
	}
	start, said := time.Now(), time.Now()
	var refused time.Time // since when the server has answered and refused, as one that has just come up does for a moment
	for {
		err := d.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
		if err == nil && s.Probe != "" {
			err = d.RESTClient().Get().AbsPath(s.Probe).Do(ctx).Error()
		}
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		}
		if fatal := s.hopeless(err, refused, time.Now()); fatal != nil {
			return fmt.Errorf("API server %s: %w", config.Host, fatal)
		}
		if time.Since(said) >= waitSay {
			said = time.Now()
			why := err
			if apierrors.IsForbidden(err) {
				why = errNoRoles
			}
			log.Info("Waiting for the API server", "server", config.Host, "since", start.Format(time.RFC3339), "err", why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitPoll):
		}
	}
}

// hopeless explains an error that no waiting can cure, and returns nil for any other. A server that has just come up may
// refuse requests: it knows neither its own roles yet nor, if its caches are not filled, the tokens of service accounts.
// refused is when that began.
func (s Server) hopeless(err error, refused, now time.Time) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("its certificate is not signed by the CA in the kubeconfig (certificate-authority): %w", err)
	case errors.As(err, &host):
		return fmt.Errorf("its certificate is not valid for the name in the kubeconfig (server): %w", err)
	case errors.As(err, &invalid):
		return fmt.Errorf("its certificate is not valid now: %w", err)
	case now.Sub(refused) <= waitTries:
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("it does not accept the credentials in the kubeconfig: %w", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the user in the kubeconfig lacks permissions; it needs %s: %w", cmp.Or(s.Role, "to read "+s.Probe), err)
	}
	return nil
}
