package webhook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widgets = schema.GroupVersion{Group: "apps.example.com", Version: "v1"}

// widget is the kind under test.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   widgetSpec   `json:"spec"`
	Status widgetStatus `json:"status,omitempty"`
}

type widgetSpec struct {
	Size  *int64            `json:"size,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	Parts []widgetPart      `json:"parts,omitempty"`
}

type widgetPart struct {
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"`
}

type widgetStatus struct {
	Ready bool `json:"ready,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (w *widget) DeepCopyObject() runtime.Object {
	var c widget
	data, _ := json.Marshal(w)
	_ = json.Unmarshal(data, &c)
	return &c
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(widgets.WithKind("Widget"), &widget{})
	return s
}

// request returns an admission request about a widget; an empty document is none.
func request(op admissionv1.Operation, old, obj string) *admissionv1.AdmissionRequest {
	r := &admissionv1.AdmissionRequest{
		UID: "u1", Operation: op, Name: "w", Namespace: "default",
		Kind: metav1.GroupVersionKind{Group: widgets.Group, Version: widgets.Version, Kind: "Widget"},
	}
	if obj != "" {
		r.Object.Raw = []byte(obj)
	}
	if old != "" {
		r.OldObject.Raw = []byte(old)
	}
	return r
}

// send posts a request to a handler and returns the status with the answer, or with the body where it is none.
func send(t *testing.T, h http.Handler, path string, r *admissionv1.AdmissionRequest) (int, *admissionv1.AdmissionResponse, string) {
	t.Helper()
	data, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r,
	})
	if err != nil {
		t.Fatal(err)
	}
	return post(t, h, path, "application/json", string(data))
}

func post(t *testing.T, h http.Handler, path, contentType, body string) (int, *admissionv1.AdmissionResponse, string) {
	t.Helper()
	in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	in.Header.Set("Content-Type", contentType)
	out := httptest.NewRecorder()
	h.ServeHTTP(out, in)
	answered, _ := io.ReadAll(out.Result().Body)
	var review admissionv1.AdmissionReview
	if out.Code != http.StatusOK {
		return out.Code, nil, string(answered)
	}
	if err := json.Unmarshal(answered, &review); err != nil || review.Kind != "AdmissionReview" || review.APIVersion != "admission.k8s.io/v1" || review.Response == nil {
		t.Fatalf("answer %s: %v", answered, err)
	}
	return out.Code, review.Response, string(answered)
}
