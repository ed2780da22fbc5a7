package client

import (
	"bytes"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"orrery/kit/wire"
)

// Undecoded makes the list and watch calls of a ListWatch leave out a part of each object, which costs less than decoding
// and then dropping it. It applies to protobuf; objects that arrive as JSON are decoded whole.
func Undecoded(m wire.Message) Option { return func(c *call) { c.undecoded = &m } }

// Protobuf fields of runtime.Unknown, in which the API wraps objects, of the type in it, and of lists.
const (
	unknownType, unknownRaw = 1, 2
	typeKind                = 2
	listItems               = 2
)

// leanClient returns a client for the resource that leaves out m of the objects that it decodes.
func (k *kinds) leanClient(r *resource, m wire.Message) (rest.Interface, error) {
	kind := r.gvk.Kind
	if r.form == metadataOnly {
		kind = "PartialObjectMetadata"
	}
	config := k.configFor(restID{r.gvk.GroupVersion(), r.form})
	config.RateLimiter = r.rest.GetRateLimiter() // shared: the limit is that of the process
	config.NegotiatedSerializer = leanNegotiation{config.NegotiatedSerializer, newLeanDecoding(kind, m, &k.buffers)}
	lean, err := rest.RESTClientForConfigAndClient(config, k.http)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", r.gvk.GroupVersion(), err)
	}
	return lean, nil
}

func newLeanDecoding(kind string, m wire.Message, b *buffers) leanDecoding {
	return leanDecoding{
		kind: kind, object: inEnvelope(m), list: inEnvelope(wire.Message{In: map[int]wire.Message{listItems: m}}), buffers: b,
	}
}

func inEnvelope(m wire.Message) *wire.Filter {
	return wire.New(wire.Message{In: map[int]wire.Message{unknownRaw: m}})
}

// leanNegotiation offers the same media types as the inner negotiation, with protobuf decoded by a leanDecoding.
type leanNegotiation struct {
	runtime.NegotiatedSerializer
	leanDecoding
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (n leanNegotiation) SupportedMediaTypes() []runtime.SerializerInfo {
	inner := n.NegotiatedSerializer.SupportedMediaTypes()
	out := make([]runtime.SerializerInfo, len(inner))
	for i, info := range inner {
		if info.MediaType == runtime.ContentTypeProtobuf {
			info.Serializer = leanSerializer{info.Serializer, n.leanDecoding}
			if stream := info.StreamSerializer; stream != nil {
				info.StreamSerializer = &runtime.StreamSerializerInfo{
					EncodesAsText: stream.EncodesAsText, Serializer: eventDecoder{stream.Serializer}, Framer: chunkedFramer{stream.Framer, n.buffers},
				}
			}
		}
		out[i] = info
	}
	return out
}

// leanDecoding says what is left out of the objects of a kind.
type leanDecoding struct {
	kind         string
	object, list *wire.Filter // of the enveloped object, and of the enveloped list
	*buffers
}

// buffers are pools of buffers that are not in use. The zero value is ready.
type buffers struct {
	filtered sync.Pool // of *[]byte, for objects without what is left out
	chunks   sync.Pool // of *chunk, for what is read ahead
}

// take returns a buffer of a pool, or a new one.
func take[T any](pool *sync.Pool) *T {
	if b, ok := pool.Get().(*T); ok {
		return b
	}
	return new(T)
}

type leanSerializer struct {
	runtime.Serializer
	leanDecoding
}

// Decode implements runtime.Decoder.
func (s leanSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	filter := s.filterFor(data)
	if filter == nil {
		return s.Serializer.Decode(data, defaults, into)
	}
	// Decoded objects do not refer to the buffer.
	buf := take[[]byte](&s.filtered)
	defer func() {
		if cap(*buf) <= chunkSize { // a list may be very large
			s.filtered.Put(buf)
		}
	}()
	var ok bool
	*buf, ok = filter.Append(append((*buf)[:0], protobufEnvelope...), data[len(protobufEnvelope):])
	if !ok {
		return s.Serializer.Decode(data, defaults, into)
	}
	return s.Serializer.Decode(*buf, defaults, into)
}

// filterFor returns the filter of an enveloped object, or nil: objects of other kinds, such as errors, stay whole.
func (d leanDecoding) filterFor(data []byte) *wire.Filter {
	envelope, ok := bytes.CutPrefix(data, protobufEnvelope)
	if !ok {
		return nil
	}
	rest, ok := bytes.CutPrefix(wire.Field(wire.Field(envelope, unknownType), typeKind), []byte(d.kind))
	switch {
	case !ok:
	case len(rest) == 0:
		return d.object
	case string(rest) == "List":
		return d.list
	}
	return nil
}
