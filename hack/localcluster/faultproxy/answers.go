package faultproxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Refuse answers as the API server does when it refuses, with a status code and
// its reason: 409 and "Conflict", 500 and "InternalError".
func Refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"storm","reason":%q,"code":%d}`, reason, code)
}

// Lose makes the client see the connection end instead of an answer. It does
// not return.
func Lose() { panic(http.ErrAbortHandler) }

// Delay returns a body that hands on what it reads when that has got so old.
func Delay(body io.ReadCloser, by time.Duration) io.ReadCloser {
	l := &late{chunks: make(chan chunk, 4096), closed: make(chan struct{}), body: body}
	go l.read(by)
	return l
}

// late is a body whose data come late.
type late struct {
	chunks chan chunk
	closed chan struct{} // by Close
	once   sync.Once     // closes it
	rest   []byte
	body   io.ReadCloser
}

type chunk struct {
	data []byte
	due  time.Time
}

func (l *late) read(by time.Duration) {
	defer close(l.chunks)
	for {
		buffer := make([]byte, 32<<10)
		n, err := l.body.Read(buffer)
		if n > 0 {
			select {
			case l.chunks <- chunk{buffer[:n], time.Now().Add(by)}:
			case <-l.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (l *late) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		next, open := <-l.chunks
		if !open {
			return 0, io.EOF
		}
		time.Sleep(time.Until(next.due))
		l.rest = next.data
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *late) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.body.Close()
}
