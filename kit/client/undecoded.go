package client

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"orrery/kit/wire"
)

// Undecoded makes the list and watch calls of a ListWatch leave out a part of each object, which costs less than to
// decode and then drop it. It concerns what arrives as protobuf; the rest is decoded whole.
func Undecoded(m wire.Message) Option { return func(c *call) { c.undecoded = &m } }

// Fields of runtime.Unknown and of the type in it, in which the API wraps objects, and of lists.
const (
	unknownType, unknownRaw = 1, 2
	typeKind                = 2
	listItems               = 2
)

// leanClient returns a client for the resource that leaves out a part of the objects that it decodes.
func (k *kinds) leanClient(r *resource, m wire.Message) (rest.Interface, error) {
	kind := r.gvk.Kind
	if r.form == metadataOnly {
		kind = "PartialObjectMetadata"
	}
	config := k.configFor(restID{r.gvk.GroupVersion(), r.form})
	config.RateLimiter = r.rest.GetRateLimiter() // shared: the limit is that of the process
	config.NegotiatedSerializer = leanNegotiation{config.NegotiatedSerializer, leanDecoding{
		kind: kind, object: inEnvelope(m), list: inEnvelope(wire.Message{In: map[int]wire.Message{listItems: m}}),
	}}
	lean, err := rest.RESTClientForConfigAndClient(config, k.http)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", r.gvk.GroupVersion(), err)
	}
	return lean, nil
}

func inEnvelope(m wire.Message) *wire.Cut {
	return wire.New(wire.Message{In: map[int]wire.Message{unknownRaw: m}})
}

// leanNegotiation offers what the inner one does, with another way to decode protobuf.
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
		}
		out[i] = info
	}
	return out
}

// leanDecoding says what is left out of the objects of a kind.
type leanDecoding struct {
	kind         string
	object, list *wire.Cut // of the enveloped object, and of the enveloped list
}

type leanSerializer struct {
	runtime.Serializer
	leanDecoding
}

// Decode implements runtime.Decoder.
func (s leanSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return s.Serializer.Decode(s.apply(data), defaults, into)
}

// apply returns an enveloped object without what is to be left out. Others than those of the kind, as errors are, stay
// whole.
func (d leanDecoding) apply(data []byte) []byte {
	envelope, ok := bytes.CutPrefix(data, protobufEnvelope)
	if !ok {
		return data
	}
	cut := d.cutFor(wire.Field(wire.Field(envelope, unknownType), typeKind))
	if cut == nil {
		return data
	}
	out, ok := cut.Append(append(make([]byte, 0, len(data)), protobufEnvelope...), envelope)
	if !ok {
		return data
	}
	return out
}

func (d leanDecoding) cutFor(kind []byte) *wire.Cut {
	rest, ok := bytes.CutPrefix(kind, []byte(d.kind))
	switch {
	case !ok:
	case len(rest) == 0:
		return d.object
	case string(rest) == "List":
		return d.list
	}
	return nil
}
