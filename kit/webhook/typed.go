package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery/kit/client"
)

// Request is what is asked, beside the objects: who wants what, and whether it is a dry run. It is read-only.
type Request = admissionv1.AdmissionRequest

// Handlers say what is right for the objects of one type.
type Handlers[P client.Object] struct {
	// Default sets what an object leaves open, in place; nil if there are no defaults. It has to do nothing to an object
	// that it has seen before. An error refuses the object.
	Default func(ctx context.Context, r *Request, obj P) error
	// Validate returns an error for what may not be stored (see Invalid), and warnings for the one who wrote it; nil if
	// everything goes. old is nil for a create, and where what is stored cannot be read; obj is nil for a delete.
	Validate func(ctx context.Context, r *Request, old, obj P) (warnings []string, err error)
}

// Add serves the handlers of a type, at the paths that DefaultingPath and ValidatingPath give for its kind.
func Add[T any, P client.Ptr[T]](s *Server, h Handlers[P]) error {
	gvks, _, err := s.scheme.ObjectKinds(P(new(T)))
	if err != nil {
		return fmt.Errorf("webhook for %T: %w", *new(T), err)
	}
	gvk := gvks[0]
	t := typed[T, P]{gvk, h}
	if h.Default != nil {
		if err := s.Handle(DefaultingPath(gvk), review{t.mutate, s.log}); err != nil {
			return err
		}
	}
	if h.Validate != nil {
		return s.Handle(ValidatingPath(gvk), review{t.validate, s.log})
	}
	return nil
}

// DefaultingPath is where the defaults of a kind are served: "/mutate-apps-example-com-v1-widget".
func DefaultingPath(gvk schema.GroupVersionKind) string { return "/mutate-" + pathOf(gvk) }

// ValidatingPath is where the objects of a kind are validated: "/validate-apps-example-com-v1-widget".
func ValidatingPath(gvk schema.GroupVersionKind) string { return "/validate-" + pathOf(gvk) }

func pathOf(gvk schema.GroupVersionKind) string {
	return strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
}

// Invalid returns the error that the API server itself answers for an object with these mistakes, or nil if there are
// none.
func Invalid(r *Request, mistakes field.ErrorList) error {
	if len(mistakes) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, r.Name, mistakes)
}

// Failure marks an error that says nothing about the object: no decision could be made, and the API server does what
// failurePolicy says. Failure(nil) is nil.
func Failure(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

type failure struct{ error }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.error }

// typed turns requests into calls of the handlers of a type.
type typed[T any, P client.Ptr[T]] struct {
	gvk schema.GroupVersionKind
	Handlers[P]
}

// mutate answers with the patch that the defaults make.
func (t typed[T, P]) mutate(ctx context.Context, r *Request) (decision, error) {
	if r.Operation != admissionv1.Create && r.Operation != admissionv1.Update {
		return decision{}, nil
	}
	obj, err := t.decode(r, r.Object.Raw)
	if err != nil {
		return t.unread(r, err)
	}
	if obj == nil {
		return decision{}, nil
	}
	before, err := t.decode(r, r.Object.Raw)
	if err != nil {
		return decision{}, err
	}
	if err := t.Default(ctx, r, obj); err != nil {
		return decision{}, err
	}
	patch, err := patchBetween(r.Object.Raw, before, obj)
	return decision{patch: patch}, Failure(err)
}

// validate answers with what the handler thinks of the change.
func (t typed[T, P]) validate(ctx context.Context, r *Request) (decision, error) {
	if r.Operation == admissionv1.Connect {
		return decision{}, nil
	}
	obj, err := t.decode(r, r.Object.Raw)
	if err != nil {
		return t.unread(r, err)
	}
	old, err := t.decode(r, r.OldObject.Raw)
	switch {
	case isFailure(err):
		return decision{}, err
	case err != nil && obj == nil:
		return decision{}, nil // what nobody can read may be deleted
	case err != nil:
		old = nil // whoever mends what could not be read is judged as if it were new
	}
	warnings, err := t.Validate(ctx, r, old, obj)
	return decision{warnings: warnings}, err
}

// unread decides about an object that cannot be read. What is stored and cannot be read, from before its schema was as
// strict, stays as bad as it is: it can get finalizers and metadata, and be deleted.
func (t typed[T, P]) unread(r *Request, err error) (decision, error) {
	if isFailure(err) || r.Operation != admissionv1.Update {
		return decision{}, err
	}
	var is metav1.PartialObjectMetadata
	if _, was := t.decode(r, r.OldObject.Raw); was != nil || utiljson.Unmarshal(r.Object.Raw, &is) == nil && is.DeletionTimestamp != nil {
		return decision{warnings: []string{err.Error()}}, nil
	}
	return decision{}, err
}

func isFailure(err error) bool {
	var failed *failure
	return errors.As(err, &failed)
}

// decode reads an object; nothing is a nil one. An object of another kind means that the webhook is registered for the
// wrong rules, which no object can mend.
func (t typed[T, P]) decode(r *Request, raw []byte) (P, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if got := (schema.GroupVersionKind{Group: r.Kind.Group, Version: r.Kind.Version, Kind: r.Kind.Kind}); got != t.gvk {
		return nil, Failure(fmt.Errorf("the webhook of %s was asked about a %s: its rules are wrong", t.gvk, got))
	}
	obj := P(new(T))
	if err := utiljson.Unmarshal(raw, obj); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read the %s: %v", t.gvk.Kind, err))
	}
	return obj, nil
}
