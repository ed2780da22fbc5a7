package client

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// decode reads an answer. An extension API that is made by hand may know nothing of metadata-only objects: of the whole
// ones that it answers with instead, in JSON, the metadata is read.
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

// likely reports whether something that was read as metadata is that of an object, or of a list of objects.
func likely(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return o.Name != ""
	case *metav1.PartialObjectMetadataList:
		return strings.HasSuffix(o.Kind, "List")
	}
	return false
}

// deleteBody adds the options of a delete to a request. Where it concerns a kind by its metadata, of which nobody knows who
// serves it, they are in JSON, which every server reads.
func (r *resource) deleteBody(req *rest.Request, o metav1.DeleteOptions) *rest.Request {
	if r.form != metadataOnly {
		return req.Body(&o)
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	data, _ := json.Marshal(&o) // always can be encoded
	return req.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data)
}
