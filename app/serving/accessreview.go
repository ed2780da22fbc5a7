package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/klog/v2"

	"orrery/kit"
)

const (
	// reviewCacheSize is how many answers are remembered at most.
	reviewCacheSize = 8192
	// maxCachedPath keeps callers from filling the memory with answers for paths they made up.
	maxCachedPath = 10000
)

// accessReviewer asks the API server whether a user may do something with a path.
type accessReviewer struct {
	reviews               authorizationv1client.SubjectAccessReviewInterface
	backoff               wait.Backoff
	allowedTTL, deniedTTL time.Duration

	cache    *cache.LRUExpireCache
	inFlight singleflight.Group
}

func newAccessReviewer(reviews authorizationv1client.SubjectAccessReviewInterface, allowedTTL, deniedTTL time.Duration) *accessReviewer {
	return &accessReviewer{
		reviews: reviews, backoff: reviewBackoff, allowedTTL: allowedTTL, deniedTTL: deniedTTL,
		cache: cache.NewLRUExpireCache(reviewCacheSize),
	}
}

// review returns whether the user may, and why if the API server says why. Requests
// for the same at the same time share one review, which therefore outlives the one
// that caused it.
func (r *accessReviewer) review(ctx context.Context, who user.Info, verb, path string) (allowed bool, reason string, err error) {
	spec := accessSpec(who, verb, path)
	encoded, err := json.Marshal(spec)
	if err != nil {
		return false, "", fmt.Errorf("encode subject access review: %w", err)
	}
	key := string(encoded)
	if known, ok := r.cache.Get(key); ok {
		return verdict(known.(authorizationv1.SubjectAccessReviewStatus))
	}
	shared := context.WithoutCancel(ctx)
	answer := r.inFlight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(shared, reviewsTimeout)
		defer cancel()
		status, err := r.ask(ctx, spec)
		if err == nil && len(path) < maxCachedPath {
			r.remember(key, status)
		}
		return status, err
	})
	select {
	case result := <-answer:
		if result.Err != nil {
			return false, "", result.Err
		}
		return verdict(result.Val.(authorizationv1.SubjectAccessReviewStatus))
	case <-ctx.Done():
		return false, "", ctx.Err()
	}
}

// ask makes the review. It runs in a goroutine that no request handler's recovery
// covers, so it must not let a panic through.
func (r *accessReviewer) ask(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (status authorizationv1.SubjectAccessReviewStatus, err error) {
	err = kit.Guard(func() error {
		return retryTransient(ctx, r.backoff, func(ctx context.Context) error {
			answer, err := r.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			if err == nil {
				status = answer.Status
			}
			return err
		})
	})
	if err != nil {
		klog.ErrorS(err, "Subject access review failed", "user", spec.User, "path", spec.NonResourceAttributes.Path)
		return status, fmt.Errorf("review access: %w", err)
	}
	return status, nil
}

func (r *accessReviewer) remember(key string, status authorizationv1.SubjectAccessReviewStatus) {
	ttl := r.deniedTTL
	if status.Allowed {
		ttl = r.allowedTTL
	}
	if ttl > 0 {
		r.cache.Add(key, status, ttl)
	}
}

func accessSpec(who user.Info, verb, path string) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(),
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}
	if extra := who.GetExtra(); extra != nil {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(extra))
		for key, values := range extra {
			spec.Extra[key] = values
		}
	}
	return spec
}

func verdict(status authorizationv1.SubjectAccessReviewStatus) (allowed bool, reason string, err error) {
	if status.Allowed && status.Denied {
		return false, status.Reason, errors.New("review access: the API server both allowed and denied the request")
	}
	return status.Allowed, status.Reason, nil
}
