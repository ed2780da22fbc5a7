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

// Request is the admission request: who wants to do what, and whether it is a dry run. It is read-only.
type Request = admissionv1.AdmissionRequest

// Handlers default and validate the objects of one type.
type Handlers[P client.Object] struct {
	// Default sets fields that the object leaves empty, in place; nil if there are no defaults. It must be idempotent. An
	// error refuses the object.
	Default func(ctx context.Context, r *Request, obj P) error
	// Validate returns an error if the object must not be stored (see Invalid), and warnings for the client that wrote it;
	// nil if every object is valid. old is nil for a create, and if the stored object cannot be decoded; obj is nil for a
	// delete.
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

// Invalid returns the same error as the API server itself for an object with these mistakes, or nil if there are none.
func Invalid(r *Request, mistakes field.ErrorList) error {
	if len(mistakes) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, r.Name, mistakes)
}

// Failure marks an error that is not about the object: no decision could be made, and the API server applies the
// failurePolicy. Failure(nil) is nil.
func Failure(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

type failure struct{ error }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.error }

// typed calls the handlers of a type for a request.
type typed[T any, P client.Ptr[T]] struct {
	gvk schema.GroupVersionKind
	Handlers[P]
}

// mutate returns the patch that sets the defaults.
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

// validate returns the verdict of the handler.
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
		return decision{}, nil // an object that cannot be decoded may be deleted
	case err != nil:
		old = nil // an update that repairs such an object is validated like a create
	}
	warnings, err := t.Validate(ctx, r, old, obj)
	return decision{warnings: warnings}, err
}

// unread decides about an object that cannot be decoded. An update is allowed, with a warning, if the stored object cannot be
// decoded either, as after its schema became stricter, or if the object is being deleted: its finalizers must stay removable.
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

// decode decodes an object; empty input is a nil object. An object of another kind means that the webhook is registered with
// the wrong rules, which is no fault of the object.
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
