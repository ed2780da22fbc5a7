package cache

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/wire"
)

// Where an object of any kind has its metadata on the wire, and what of it.
const (
	objectMetadata        = 1
	metadataName          = 1
	metadataNamespace     = 3
	metadataVersion       = 6
	metadataManagedFields = 17
)

// undecoded returns what of a kind's objects is dropped without having been decoded: managed fields, and what the
// slimming of the kind adds.
func (c *Cache) undecoded(gvk schema.GroupVersionKind, form Form) wire.Message {
	var m wire.Message
	if form == Structured {
		m = c.o.Slim[gvk].Undecoded
	}
	in := maps.Clone(m.In)
	if in == nil {
		in = map[int]wire.Message{}
	}
	metadata := in[objectMetadata]
	metadata.Drop = append(slices.Clip(metadata.Drop), metadataManagedFields)
	in[objectMetadata] = metadata
	m.In = in
	return m
}
