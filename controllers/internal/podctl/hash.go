package podctl

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// TemplateHash returns the hash by which Deployments and DaemonSets tell the pods of one template from those of another.
// It is part of names that other implementations have to find again, so its form is fixed: FNV-1a (32 bit) over the dump
// of the template and, once a collision has been met, its count as eight little-endian bytes; in decimal, in the
// alphabet that spells no words.
func TemplateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, dump.ForHash(*template)) // a hash never fails
	if collisions != nil {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(uint32(*collisions))))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
