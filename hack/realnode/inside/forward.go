package inside

import (
	"errors"
	"io"
	"net"
	"sync"
)

// forward hands connections that come from the machine's network on to kube-apiserver in this one.
func forward(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go hand(client)
	}
}

// hand serves one connection.
func hand(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp4", Address+":6443")
	if err != nil {
		return
	}
	defer server.Close()
	splice(client, server)
}

// splice copies in both directions until both have ended.
func splice(client, server net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pour(server, client) })
	both.Go(func() { pour(client, server) })
	both.Wait()
}

// pour copies until the source ends, and passes the end on.
func pour(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}
