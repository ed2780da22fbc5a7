package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"orrery/options/serving"
)

// listen binds the address the options name. The error says which flags to change,
// since a taken port is the most usual reason for a daemon not to start.
func listen(ctx context.Context, o serving.SecureOptions) (net.Listener, error) {
	host := ""
	if o.BindAddress != nil {
		host = o.BindAddress.String()
	}
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		return shareSocket(conn, o.PermitAddressSharing, o.PermitPortSharing)
	}}
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(o.Port)))
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on --secure-port %d of --bind-address %s: another process has the port; stop it or give another port: %w", o.Port, host, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on --secure-port %d of --bind-address %s: this machine does not have the address: %w", o.Port, host, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on --secure-port %d of --bind-address %s: not permitted; ports below 1024 need a privilege: %w", o.Port, host, err)
	default:
		return nil, fmt.Errorf("listen on --secure-port %d of --bind-address %s: %w", o.Port, host, err)
	}
}
