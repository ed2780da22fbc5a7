package client

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// decode reads an answer. A handmade extension API may know nothing of metadata-only objects: if it answers with whole
// ones, in JSON, their metadata is read.
func (r *resource) decode(answer rest.Result, into runtime.Object) error {
	err := answer.Into(into)
	if r.form != metadataOnly || !runtime.IsNotRegisteredError(err) {
		return err
	}
	data, rawErr := answer.Raw()
	if rawErr != nil || json.Unmarshal(data, into) != nil || !likely(into) {
		return err
	}
	return nil
}

// likely reports whether something that was decoded as metadata looks like that of an object, or of a list of objects.
func likely(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return o.Name != ""
	case *metav1.PartialObjectMetadataList:
		return strings.HasSuffix(o.Kind, "List")
	}
	return false
}

// deleteBody adds the options of a delete to a request. Metadata-only kinds may be served by any extension API, so for
// them the options are in JSON, which every server reads.
func (r *resource) deleteBody(req *rest.Request, o metav1.DeleteOptions) *rest.Request {
	if r.form != metadataOnly {
		return req.Body(&o)
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	data, _ := json.Marshal(&o) // cannot fail
	return req.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data)
}
