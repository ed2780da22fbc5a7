package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Brief makes a create, update or patch return only metadata of the stored object: its name, namespace, UID,
// resourceVersion, generation, finalizers and times. It is for callers that write many objects and do not read the answer.
func Brief(c *call) { c.brief = true }

// protobufEnvelope begins every protobuf body of the API; a runtime.Unknown with the object follows.
var protobufEnvelope = []byte("k8s\x00")

// doBrief sends a request whose answer is metadata only, and copies that into out.
func doBrief(ctx context.Context, req *rest.Request, out Object) error {
	answer := req.SetHeader("Accept", acceptMetadata).Do(ctx)
	// Error, unlike Raw, decodes the reason, message and causes of a refusal.
	if err := answer.Error(); err != nil {
		return err
	}
	data, err := answer.Raw()
	if err != nil {
		return err
	}
	var m metav1.PartialObjectMetadata
	if rest, ok := bytes.CutPrefix(data, protobufEnvelope); ok {
		var unknown runtime.Unknown
		if err = unknown.Unmarshal(rest); err == nil {
			err = m.Unmarshal(unknown.Raw)
		}
	} else {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return fmt.Errorf("read the metadata that the server answered: %w", err)
	}
	out.SetName(m.Name)
	out.SetGenerateName(m.GenerateName)
	out.SetNamespace(m.Namespace)
	out.SetUID(m.UID)
	out.SetResourceVersion(m.ResourceVersion)
	out.SetGeneration(m.Generation)
	out.SetCreationTimestamp(m.CreationTimestamp)
	out.SetDeletionTimestamp(m.DeletionTimestamp)
	out.SetDeletionGracePeriodSeconds(m.DeletionGracePeriodSeconds)
	out.SetFinalizers(m.Finalizers)
	return nil
}
