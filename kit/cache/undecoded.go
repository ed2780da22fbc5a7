package cache

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/wire"
)

// Protobuf field numbers of the metadata in an object of any kind, and of fields in the metadata.
const (
	objectMetadata        = 1
	metadataName          = 1
	metadataNamespace     = 3
	metadataVersion       = 6
	metadataManagedFields = 17
)

// undecoded returns the fields of a kind that are dropped without being decoded: managed fields, and those that the
// slimming of the kind names.
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
