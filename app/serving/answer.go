package serving

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// htmlSafe keeps what callers wrote from coming back to a browser as markup.
var htmlSafe = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// answerUnauthorized, answerForbidden and answerNotAcceptable answer with a Status
// object, which is what Kubernetes clients expect of an error.

func answerUnauthorized(w http.ResponseWriter, req *http.Request) {
	answerStatus(w, req, apierrors.NewUnauthorized("Unauthorized").Status())
}

func answerForbidden(w http.ResponseWriter, req *http.Request, message string) {
	answerStatus(w, req, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(message)).Status())
}

func answerNotAcceptable(w http.ResponseWriter, req *http.Request, accepted string) {
	answerStatus(w, req, metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + accepted,
	})
}

func answerStatus(w http.ResponseWriter, req *http.Request, status metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(int(status.Code))
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", prettyIndent(req))
	if err := encoder.Encode(status); err != nil {
		klog.V(4).InfoS("Answer not written", "err", err)
	}
}

// answerInternalError answers 500 with the error, and logs it.
func answerInternalError(w http.ResponseWriter, req *http.Request, err error) {
	klog.ErrorS(err, "Request failed", "method", req.Method, "path", req.URL.Path)
	http.Error(w, htmlSafe.Replace(fmt.Sprintf("Internal Server Error: %q: %v", req.RequestURI, err)), http.StatusInternalServerError)
}

// answerJSON answers 200 with the value.
func answerJSON(w http.ResponseWriter, req *http.Request, contentType string, value any, indent string) {
	var encoded []byte
	var err error
	if indent == "" {
		encoded, err = json.Marshal(value)
	} else {
		encoded, err = json.MarshalIndent(value, "", indent)
	}
	if err != nil {
		answerInternalError(w, req, fmt.Errorf("encode answer: %w", err))
		return
	}
	writeBody(w, contentType, encoded)
}

// writeBody answers 200. A caller that has gone away is nobody's concern.
func writeBody(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := w.Write(body); err != nil {
		klog.V(4).InfoS("Answer not written", "err", err)
	}
}
