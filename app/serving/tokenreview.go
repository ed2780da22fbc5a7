package serving

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/klog/v2"
)

// tokenReviewer asks the API server whose token it is. It implements
// authenticator.Token and is meant to stand behind that package's cache, which also
// makes one review of the requests that bring the same token at the same time.
type tokenReviewer struct {
	reviews authenticationv1client.TokenReviewInterface
	backoff wait.Backoff
}

// AuthenticateToken returns the user of the token; false without an error means that nobody vouches for it.
func (r *tokenReviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()

	ask := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	var status authenticationv1.TokenReviewStatus
	err := retryTransient(ctx, r.backoff, func(ctx context.Context) error {
		answer, err := r.reviews.Create(ctx, ask, metav1.CreateOptions{})
		if err == nil {
			status = answer.Status
		}
		return err
	})
	if err != nil {
		klog.ErrorS(err, "Token review failed")
		return nil, false, fmt.Errorf("review bearer token: %w", err)
	}
	if !status.Authenticated {
		if status.Error != "" {
			return nil, false, errors.New(status.Error)
		}
		return nil, false, nil
	}
	info := &user.DefaultInfo{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	if status.User.Extra != nil {
		info.Extra = make(map[string][]string, len(status.User.Extra))
		for key, values := range status.User.Extra {
			info.Extra[key] = values
		}
	}
	return &authenticator.Response{User: info}, true, nil
}
