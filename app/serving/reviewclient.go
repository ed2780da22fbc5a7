package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// reviewTimeout bounds one request to the API server on behalf of a caller, and reviewsTimeout all tries together.
const (
	reviewTimeout  = 10 * time.Second
	reviewsTimeout = 30 * time.Second
)

// reviewBackoff paces the tries of a review that failed in a way that may pass.
var reviewBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}

// reviewConfig loads the kubeconfig a flag names, or what a pod finds in its
// service account. It returns nil if there is neither, which is allowed.
func reviewConfig(flag, kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("load kubeconfig of --%s %s: %w", flag, kubeconfig, err)
		}
		return reviewLimits(config), nil
	}
	config, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, nil
	case err != nil:
		klog.ErrorS(err, "No kubeconfig given and the pod's service account is unusable", "flag", flag)
		return nil, nil
	}
	return reviewLimits(config), nil
}

// reviewLimits allows many more requests than the client library does by default: every one has a caller who waits for it.
func reviewLimits(config *rest.Config) *rest.Config {
	config.QPS, config.Burst, config.Timeout = 200, 400, reviewTimeout
	return config
}

// authenticationClients returns the clients for token reviews and for the settings in the cluster; nil without a configuration.
func authenticationClients(config *rest.Config) (authenticationv1client.TokenReviewInterface, rest.Interface, error) {
	if config == nil {
		return nil, nil, nil
	}
	reviews, err := authenticationv1client.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make client from --authentication-kubeconfig: %w", err)
	}
	// A watch lasts longer than any request may.
	watching := rest.CopyConfig(config)
	watching.Timeout = 0
	core, err := corev1client.NewForConfig(watching)
	if err != nil {
		return nil, nil, fmt.Errorf("make client from --authentication-kubeconfig: %w", err)
	}
	return reviews.TokenReviews(), core.RESTClient(), nil
}

// authorizationClient returns the client for subject access reviews; nil without a configuration.
func authorizationClient(config *rest.Config) (authorizationv1client.SubjectAccessReviewInterface, error) {
	if config == nil {
		return nil, nil
	}
	client, err := authorizationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client from --authorization-kubeconfig: %w", err)
	}
	return client.SubjectAccessReviews(), nil
}

// retryTransient calls until an answer comes that another try would not change, and returns the last error.
func retryTransient(ctx context.Context, backoff wait.Backoff, call func(context.Context) error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		last = call(ctx)
		return last == nil || !isTransient(last), nil
	})
	if last != nil {
		return last
	}
	return err
}

// isTransient tells an overloaded or restarting server from one that said no or is not there.
// A refused connection counts as the latter: the caller had better be told than kept waiting.
func isTransient(err error) bool {
	if _, ok := apierrors.SuggestsClientDelay(err); ok {
		return true
	}
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}
