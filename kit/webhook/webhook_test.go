package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit/webhook"
)

const (
	mutatePath   = "/mutate-apps-example-com-v1-widget"
	validatePath = "/validate-apps-example-com-v1-widget"
)

// serving returns a server with handlers of widgets, and what its port would be answered with.
func serving(t *testing.T, h webhook.Handlers[*widget]) (*webhook.Server, http.Handler) {
	t.Helper()
	s, err := webhook.New(t.Context(), webhook.Options{Host: "127.0.0.1", CertDir: newPair(t, "one").dir, Scheme: scheme(), Listener: listen(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.Add(s, h); err != nil {
		t.Fatal(err)
	}
	return s, s.Handler()
}

func TestDefaultsAreAnsweredAsAPatch(t *testing.T) {
	five := int64(5)
	_, h := serving(t, webhook.Handlers[*widget]{Default: func(_ context.Context, _ *webhook.Request, w *widget) error {
		if w.Spec.Size == nil {
			w.Spec.Size = &five
		}
		return nil
	}})
	code, answer, _ := send(t, h, mutatePath, request(admissionv1.Create, "", `{"metadata":{"name":"w"},"spec":{}}`))
	if code != 200 || !answer.Allowed || answer.UID != "u1" || answer.PatchType == nil || *answer.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("%d %+v", code, answer)
	}
	if got := string(answer.Patch); got != `[{"op":"add","path":"/spec/size","value":5}]` {
		t.Errorf("patch %s", got)
	}
	for _, r := range []*admissionv1.AdmissionRequest{
		request(admissionv1.Update, `{}`, `{"spec":{"size":7}}`), request(admissionv1.Delete, `{"spec":{}}`, ""), request(admissionv1.Connect, "", `{}`),
	} {
		if code, answer, _ := send(t, h, mutatePath, r); code != 200 || !answer.Allowed || answer.Patch != nil || answer.PatchType != nil {
			t.Errorf("%s: %d %+v; want no patch", r.Operation, code, answer)
		}
	}
}

func TestValidationSeesBothSidesAndAnswersLikeTheAPI(t *testing.T) {
	var seen []string
	_, h := serving(t, webhook.Handlers[*widget]{Validate: func(_ context.Context, r *webhook.Request, old, obj *widget) ([]string, error) {
		say := string(r.Operation)
		if old != nil {
			say += " old"
		}
		if obj != nil {
			say += " new"
		}
		seen = append(seen, say)
		if obj == nil {
			return nil, errors.New("never delete")
		}
		var mistakes field.ErrorList
		if obj.Spec.Size != nil && *obj.Spec.Size < 0 {
			mistakes = append(mistakes, field.Invalid(field.NewPath("spec", "size"), *obj.Spec.Size, "must not be negative"))
		}
		return []string{"two\nlines"}, webhook.Invalid(r, mistakes)
	}})
	_, answer, _ := send(t, h, validatePath, request(admissionv1.Create, "", `{"spec":{"size":1}}`))
	if !answer.Allowed || len(answer.Warnings) != 1 || answer.Warnings[0] != "two lines" {
		t.Errorf("a right one: %+v", answer)
	}
	_, answer, _ = send(t, h, validatePath, request(admissionv1.Update, `{"spec":{}}`, `{"spec":{"size":-1}}`))
	if answer.Allowed || answer.Result.Code != 422 || !strings.Contains(answer.Result.Message, "spec.size: Invalid value: -1: must not be negative") || len(answer.Warnings) != 1 {
		t.Errorf("a wrong one: %+v", answer)
	}
	_, answer, _ = send(t, h, validatePath, request(admissionv1.Delete, `{"spec":{}}`, ""))
	if answer.Allowed || answer.Result.Code != 403 || answer.Result.Message != "never delete" {
		t.Errorf("a delete: %+v", answer)
	}
	if _, answer, _ = send(t, h, validatePath, request(admissionv1.Connect, "", `{}`)); !answer.Allowed {
		t.Errorf("a connect: %+v", answer)
	}
	_, answer, _ = send(t, h, validatePath, request(admissionv1.Create, "", `{"spec":{"size":"big"}}`))
	if answer.Allowed || answer.Result.Code != 400 {
		t.Errorf("an object that cannot be read: %+v", answer)
	}
	if got := strings.Join(seen, ", "); got != "CREATE new, UPDATE old new, DELETE old" {
		t.Errorf("the handler saw %s", got)
	}
}

// What is stored and cannot be read must not be stuck: it can be mended, get finalizers and metadata, and be deleted.
func TestWhatIsStoredAndCannotBeReadCanBeMended(t *testing.T) {
	var seen []string
	_, h := serving(t, webhook.Handlers[*widget]{
		Default: func(context.Context, *webhook.Request, *widget) error { return nil },
		Validate: func(_ context.Context, _ *webhook.Request, old, obj *widget) ([]string, error) {
			seen = append(seen, fmt.Sprint(old == nil, obj == nil))
			return nil, nil
		},
	})
	const bad, good = `{"metadata":{"name":"w"},"spec":{"size":"big"}}`, `{"metadata":{"name":"w"},"spec":{"size":1}}`
	const going = `{"metadata":{"name":"w","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"size":"big"}}`
	for name, tc := range map[string]struct {
		r    *admissionv1.AdmissionRequest
		lets bool
	}{
		"mended":             {request(admissionv1.Update, bad, good), true},
		"other metadata":     {request(admissionv1.Update, bad, strings.Replace(bad, `"w"`, `"w","labels":{"a":"b"}`, 1)), true},
		"a finalizer less":   {request(admissionv1.Update, going, going), true},
		"deleted":            {request(admissionv1.Delete, bad, ""), true},
		"spoilt":             {request(admissionv1.Update, good, bad), false},
		"created":            {request(admissionv1.Create, "", bad), false},
		"created as deleted": {request(admissionv1.Create, "", going), false},
	} {
		for _, path := range []string{mutatePath, validatePath} {
			if code, answer, body := send(t, h, path, tc.r); code != 200 || answer.Allowed != tc.lets {
				t.Errorf("%s at %s: %d %s", name, path, code, body)
			}
		}
	}
	if got := strings.Join(seen, ", "); got != "true false" {
		t.Errorf("the handler saw %s", got)
	}
}

// TestWhereThereIsNoDecisionFailurePolicyDecides: anything but 200 is a failed call to the API server.
func TestWhereThereIsNoDecisionFailurePolicyDecides(t *testing.T) {
	s, h := serving(t, webhook.Handlers[*widget]{})
	registry := compmetrics.NewKubeRegistry()
	registry.MustRegister(s.Registerables()...)
	err := webhook.Add(s, webhook.Handlers[*widget]{Validate: func(ctx context.Context, _ *webhook.Request, _, obj *widget) ([]string, error) {
		switch obj.Name {
		case "panic":
			panic("poison")
		case "slow":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, webhook.Failure(errors.New("no database"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) *admissionv1.AdmissionRequest {
		return request(admissionv1.Create, "", `{"metadata":{"name":"`+name+`"},"spec":{}}`)
	}
	if code, _, body := send(t, h, validatePath, named("panic")); code != 500 || strings.Contains(body, "poison") {
		t.Errorf("a panic: %d %s", code, body)
	}
	if code, _, body := send(t, h, validatePath, named("failing")); code != 500 || !strings.Contains(body, "no database") {
		t.Errorf("a failure: %d %s", code, body)
	}
	start := time.Now()
	if code, _, _ := send(t, h, validatePath+"?timeout=100ms", named("slow")); code != 500 || time.Since(start) > 20*time.Second {
		t.Errorf("too slow: %d after %v", code, time.Since(start))
	}
	other := named("x")
	other.Kind.Version = "v2"
	if code, _, body := send(t, h, validatePath, other); code != 500 || !strings.Contains(body, "its rules are wrong") {
		t.Errorf("another kind: %d %s", code, body)
	}
	page := httptest.NewRecorder()
	compmetrics.HandlerFor(registry, compmetrics.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`orrery_webhook_panics_total{webhook="` + validatePath + `"} 1`,
		`orrery_webhook_requests_total{code="200",webhook="` + validatePath + `"} 0`,
		`orrery_webhook_requests_total{code="500",webhook="` + validatePath + `"} 4`,
		`orrery_webhook_requests_in_flight{webhook="` + validatePath + `"} 0`,
	} {
		if !strings.Contains(page.Body.String(), line+"\n") {
			t.Errorf("no %s in\n%s", line, page.Body)
		}
	}
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	_, h := serving(t, webhook.Handlers[*widget]{Validate: func(context.Context, *webhook.Request, *widget, *widget) ([]string, error) {
		t.Error("the handler was called")
		return nil, nil
	}})
	for _, tc := range []struct {
		name, contentType, body string
		code                    int
	}{
		{"other content", "text/plain", `{}`, 415},
		{"no JSON", "application/json", `{`, 400},
		{"old version", "application/json", `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`, 400},
		{"no request", "application/json; charset=utf-8", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400},
		{"too long", "application/json", `"` + strings.Repeat("x", 9<<20) + `"`, 413},
	} {
		if code, _, body := post(t, h, validatePath, tc.contentType, tc.body); code != tc.code {
			t.Errorf("%s: %d %.100s, want %d", tc.name, code, body, tc.code)
		}
	}
	if code, _, _ := post(t, h, "/elsewhere", "application/json", `{}`); code != 404 {
		t.Errorf("another path: %d", code)
	}
}

func TestAPathIsServedOnce(t *testing.T) {
	s, _ := serving(t, webhook.Handlers[*widget]{Default: func(context.Context, *webhook.Request, *widget) error { return nil }})
	err := webhook.Add(s, webhook.Handlers[*widget]{Default: func(context.Context, *webhook.Request, *widget) error { return nil }})
	if err == nil || !strings.Contains(err.Error(), mutatePath) {
		t.Errorf("twice: %v", err)
	}
	if err := s.Handle("no-slash", http.NotFoundHandler()); err == nil {
		t.Error("a path without a slash is taken")
	}
	type stranger struct{ widget }
	if err := webhook.Add(s, webhook.Handlers[*stranger]{}); err == nil {
		t.Error("a type that the scheme does not know is taken")
	}
}
