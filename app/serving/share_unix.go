//go:build unix

package serving

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// shareSocket lets the socket's address or port be bound by others too, where asked for.
func shareSocket(conn syscall.RawConn, address, port bool) error {
	var errs []error
	err := conn.Control(func(fd uintptr) {
		if address {
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
				errs = append(errs, fmt.Errorf("set SO_REUSEADDR for --permit-address-sharing: %w", err))
			}
		}
		if port {
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
				errs = append(errs, fmt.Errorf("set SO_REUSEPORT for --permit-port-sharing: %w", err))
			}
		}
	})
	return errors.Join(append(errs, err)...)
}
