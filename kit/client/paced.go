package client

import (
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// pace is the shortest time between two reads of a paced connection, as long as they return little.
	pace = 5 * time.Millisecond
	// readAhead is how much is read at once. If half of that has come, there is more to come soon.
	readAhead = 32 << 10
)

// Paced returns a configuration whose requests go over a connection of their own that is read only every few milliseconds
// while it has little to read. It is for watches. Each event arrives by itself, and to wake up everything on its way to the
// handlers costs more than to handle it, so that a few together need much less CPU time than one after the other. Nothing
// waits that comes after a silence, and nothing that comes in large pieces, as lists do.
func Paced(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // as without Dial
	}
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &pacedConn{Conn: conn}, nil
	}
	return c
}

// pacedConn is a connection that is read in the pace. As with any connection, only one goroutine reads it at a time.
type pacedConn struct {
	net.Conn
	next time.Time       // when it may be read again
	buf  [readAhead]byte // what was read from it
	rest []byte          // the part of buf that has not been returned yet
}

// Read implements net.Conn.
func (c *pacedConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		time.Sleep(time.Until(c.next))
		n, err := c.Conn.Read(c.buf[:])
		if n == 0 {
			return 0, err
		}
		// An error that came with data comes again without.
		c.rest, c.next = c.buf[:n], time.Time{}
		if n < readAhead/2 {
			c.next = time.Now().Add(pace)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
