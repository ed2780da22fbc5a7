package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// maxBody bounds a request: the API server accepts objects of up to 3 MiB, and sends the old object along.
const maxBody = 8 << 20

// decision is the answer when an object is allowed.
type decision struct {
	patch    []byte // a JSON patch, or empty
	warnings []string
}

// review serves admission.k8s.io/v1: it reads the request, calls decide and writes the response.
type review struct {
	decide func(context.Context, *Request) (decision, error)
	log    klog.Logger
}

// ServeHTTP implements http.Handler.
func (h review) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, status, err := readReview(w, r)
	if err != nil {
		h.log.V(2).Info("Not an admission review", "path", r.URL.Path, "err", err)
		http.Error(w, err.Error(), status)
		return
	}
	ctx, cancel := withTimeout(r)
	defer cancel()
	d, err := h.decide(klog.NewContext(ctx, h.log), request)
	if isFailure(err) || err != nil && ctx.Err() != nil {
		h.log.Error(err, "No decision", "path", r.URL.Path, "operation", request.Operation, "namespace", request.Namespace, "name", request.Name)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: err == nil, Warnings: printable(d.warnings)}
	switch {
	case err != nil:
		answer.Result = refusal(err)
		h.log.V(4).Info("Refused", "path", r.URL.Path, "operation", request.Operation, "namespace", request.Namespace, "name", request.Name, "reason", answer.Result.Message)
	case len(d.patch) > 0:
		kind := admissionv1.PatchTypeJSONPatch
		answer.Patch, answer.PatchType = d.patch, &kind
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: answer,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a failed write means that the caller has gone away
}

// readReview returns the request, or an error and its HTTP status.
func readReview(w http.ResponseWriter, r *http.Request) (*Request, int, error) {
	if r.Method != http.MethodPost {
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s: only POST is served", r.Method)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: want application/json", r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
			return nil, http.StatusRequestEntityTooLarge, err
		}
		return nil, http.StatusBadRequest, fmt.Errorf("read the request: %w", err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the admission review: %w", err)
	}
	if v := review.APIVersion; v != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		return nil, http.StatusBadRequest, fmt.Errorf("a %s of %s: want an AdmissionReview of %s (admissionReviewVersions: [v1])", review.Kind, v, admissionv1.SchemeGroupVersion)
	}
	if review.Request == nil {
		return nil, http.StatusBadRequest, errors.New("the admission review has no request")
	}
	return review.Request, 0, nil
}

// withTimeout bounds the request by the API server's timeout, which it passes in the query.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc) {
	if d, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && d > 0 {
		return context.WithTimeout(r.Context(), d)
	}
	return r.Context(), func() {}
}

// refusal is the status that is returned to the client that wrote the object.
func refusal(err error) *metav1.Status {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status := known.Status()
		return &status
	}
	return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()}
}

// printable removes the characters that are not allowed in an HTTP header: the API server would drop such warnings.
func printable(warnings []string) []string {
	for i, w := range warnings {
		warnings[i] = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, w)
	}
	return warnings
}
