package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery/kit/webhook"
)

// FuzzReview feeds arbitrary requests. Each is answered with a decision about that request, or with a status that says
// what is wrong with it; none makes the server panic.
func FuzzReview(f *testing.F) {
	const head = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":`
	for _, seed := range []string{
		``, `null`, `{}`, head + `null}`, head + `{"uid":"u1"}}`,
		head + `{"uid":"u1","operation":"CREATE","kind":{"group":"apps.example.com","version":"v1","kind":"Widget"},"object":{"spec":{"size":3}}}}`,
		head + `{"uid":"u1","operation":"UPDATE","kind":{"group":"apps.example.com","version":"v1","kind":"Widget"},"object":{"spec":null},"oldObject":{"spec":[]}}}`,
		head + `{"uid":"u1","operation":"DELETE","kind":{"group":"apps.example.com","version":"v1","kind":"Widget"},"oldObject":{}}}`,
		head + `{"uid":"u1","operation":"CREATE","kind":{"group":"apps.example.com","version":"v1","kind":"Widget"},"object":{"spec":{"size":1e400,"tags":{"a":null},"parts":[null,{"name":1}]}}}}`,
		head + `{"uid":"u1","operation":"CREATE","object":null}}`,
	} {
		f.Add(seed)
	}
	five := int64(5)
	handlers := webhook.Handlers[*widget]{
		Default: func(_ context.Context, _ *webhook.Request, w *widget) error {
			if w.Spec.Size == nil {
				w.Spec.Size = &five
			}
			for i := range w.Spec.Parts {
				w.Spec.Parts[i].Kind = "part"
			}
			return nil
		},
		Validate: func(_ context.Context, r *webhook.Request, _, obj *widget) ([]string, error) {
			if obj != nil && obj.Name == "" {
				return []string{"unnamed"}, webhook.Invalid(r, field.ErrorList{field.Required(field.NewPath("metadata", "name"), "")})
			}
			return nil, nil
		},
	}
	f.Fuzz(func(t *testing.T, body string) {
		_, h := serving(t, handlers)
		for _, path := range []string{mutatePath, validatePath} {
			code, answer, text := post(t, h, path, "application/json", body)
			switch {
			case code == http.StatusOK:
				if answer.Allowed == (answer.Result != nil) || answer.Allowed && path == validatePath && answer.Patch != nil || (answer.Patch == nil) != (answer.PatchType == nil) {
					t.Errorf("answer %s", text)
				}
				if answer.PatchType != nil && *answer.PatchType != admissionv1.PatchTypeJSONPatch {
					t.Errorf("a patch of type %s", *answer.PatchType)
				}
			case code < 400 || strings.TrimSpace(text) == "" || strings.Contains(text, "panic"):
				t.Errorf("status %d: %s", code, text)
			}
		}
	})
}
