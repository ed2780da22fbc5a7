package scenarios

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// wire is a TCP proxy in front of the API server whose connections a test can cut.
type wire struct {
	listener net.Listener
	target   string

	mu   sync.Mutex // guards open
	open map[net.Conn]bool
}

// newWire starts a proxy that is stopped at the end of the test.
func newWire(t *testing.T, e *env) *wire {
	t.Helper()
	w := &wire{
		listener: must(net.Listen("tcp", "127.0.0.1:0"))(t),
		target:   strings.TrimPrefix(e.Server(), "https://"), open: map[net.Conn]bool{},
	}
	go w.accept()
	t.Cleanup(func() {
		_ = w.listener.Close()
		w.cut()
	})
	return w
}

// server is the URL under which the API server is reached through the proxy.
func (w *wire) server() string { return "https://" + w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.carry(client)
	}
}

func (w *wire) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer server.Close()
	w.remember(client, true)
	w.remember(server, true)
	defer w.remember(client, false)
	defer w.remember(server, false)
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}

func (w *wire) remember(c net.Conn, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if open {
		w.open[c] = true
	} else {
		delete(w.open, c)
	}
}

// cut ends all connections and returns how many there were, counted at both ends.
func (w *wire) cut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
	return len(w.open)
}
