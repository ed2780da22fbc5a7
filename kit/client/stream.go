package client

import (
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/wire"
)

// Fields of metav1.WatchEvent, and of the runtime.RawExtension in it.
const (
	eventType, eventObject = 1, 2
	extensionRaw           = 1
)

// eventDecoder decodes the events of a watch without copying the object in each: the stream reads the next event only when
// the object of this one has been decoded.
type eventDecoder struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (d eventDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	kind, object := wire.Field(data, eventType), wire.Field(wire.Field(data, eventObject), extensionRaw)
	if kind == nil || object == nil {
		return d.Serializer.Decode(data, defaults, into) // which knows what is wrong with it
	}
	event.Type, event.Object = string(kind), runtime.RawExtension{Raw: object}
	return event, defaults, nil
}

// chunkedFramer frames the body of a watch as the inner framer does, but reads it in larger pieces. Each read of an HTTP/2
// body takes locks, and every few KiB send the server a window update.
type chunkedFramer struct {
	runtime.Framer
	*buffers
}

// NewFrameReader implements runtime.Framer.
func (f chunkedFramer) NewFrameReader(body io.ReadCloser) io.ReadCloser {
	return f.Framer.NewFrameReader(&chunkedBody{body: body, buffers: f.buffers})
}

// chunkSize is how much of a body is read at once.
const chunkSize = 16 << 10

type chunk [chunkSize]byte

// chunkedBody reads ahead. Most watches are silent most of the time, so it holds a buffer only while it has data: the few
// bytes before a frame, for which it may wait long, are read without one.
type chunkedBody struct {
	body io.ReadCloser
	buf  *chunk // nil: nothing has been read ahead
	rest []byte // the part of buf that has not been returned yet
	err  error  // of the last read, returned after rest
	*buffers
}

// Read implements io.Reader.
func (c *chunkedBody) Read(p []byte) (int, error) {
	if c.buf == nil {
		switch {
		case c.err != nil:
			return 0, c.err
		case len(p) < minAhead || len(p) >= chunkSize:
			return c.body.Read(p)
		}
		c.buf = take[chunk](&c.chunks)
		var n int
		n, c.err = c.body.Read(c.buf[:])
		c.rest = c.buf[:n]
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.chunks.Put(c.buf)
		c.buf, c.rest = nil, nil
	}
	return n, nil
}

// minAhead tells reads of a frame, whose bytes are on their way, from those of the few bytes before one.
const minAhead = 16

// Close implements io.Closer.
func (c *chunkedBody) Close() error { return c.body.Close() }
