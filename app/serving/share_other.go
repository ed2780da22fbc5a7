//go:build !unix

package serving

import (
	"errors"
	"syscall"
)

// shareSocket refuses, because the socket options have no equivalent of the same meaning here.
func shareSocket(_ syscall.RawConn, address, port bool) error {
	if address || port {
		return errors.New("--permit-address-sharing and --permit-port-sharing are not supported on this platform")
	}
	return nil
}
