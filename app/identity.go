package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"golang.org/x/sync/singleflight"
)

const (
	// identityNamespace holds the service accounts of the controllers.
	identityNamespace = metav1.NamespaceSystem
	// tokenLifetime is requested; the server may grant another one.
	tokenLifetime = time.Hour
	// tokenTimeout bounds one request for a token.
	tokenTimeout = 30 * time.Second
	// renewPause is the time between two attempts to renew a token that still serves.
	renewPause = 10 * time.Second
)

// identity authenticates requests as a service account. It asks the server for a token when it first needs one, renews it
// in the background once 70 to 80 percent of its lifetime have passed, and replaces it when the server refuses it.
type identity struct {
	account string
	core    typedcorev1.CoreV1Interface
	flight  singleflight.Group

	mu     sync.Mutex // guards the fields below
	token  token
	failed time.Time // when the last request for a token failed
}

type token struct {
	value   string
	renew   time.Time // from then on it should be replaced
	expires time.Time
}

// wrap returns a transport that authenticates as the service account.
func (i *identity) wrap(next http.RoundTripper) http.RoundTripper { return &identityTransport{i, next} }

// current returns a usable token, fetching one if there is none.
func (i *identity) current(ctx context.Context) (string, error) {
	i.mu.Lock()
	t, failed := i.token, i.failed
	i.mu.Unlock()
	now := time.Now()
	switch {
	case now.Before(t.renew):
		return t.value, nil
	case now.Before(t.expires):
		if now.Sub(failed) >= renewPause {
			i.flight.DoChan("", i.fetch) // renewed while the old one still serves
		}
		return t.value, nil
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case r := <-i.flight.DoChan("", i.fetch):
		if r.Err != nil {
			return "", fmt.Errorf("get a token for service account %s/%s: %w", identityNamespace, i.account, r.Err)
		}
		return r.Val.(string), nil
	}
}

// drop forgets a token that the server refused, unless it has been replaced already.
func (i *identity) drop(refused string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.token.value == refused {
		i.token = token{}
	}
}

// fetch requests a token and notes it, or that there is none.
func (i *identity) fetch() (any, error) {
	t, err := i.request()
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.failed = time.Now()
		return nil, err
	}
	i.token = t
	return t.value, nil
}

// request requests a token and creates the service account if it is missing. Callers share one request, so it has a context
// of its own: one that gives up must not cancel it for the others.
func (i *identity) request() (token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	defer cancel()
	seconds := int64(tokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	accounts := i.core.ServiceAccounts(identityNamespace)
	start := time.Now()
	answer, err := accounts.CreateToken(ctx, i.account, request, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: identityNamespace, Name: i.account}}
		if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return token{}, fmt.Errorf("create the service account: %w", err)
		}
		start = time.Now()
		answer, err = accounts.CreateToken(ctx, i.account, request, metav1.CreateOptions{})
	}
	if err != nil {
		return token{}, err
	}
	life := lifeOf(answer, start)
	// Jitter keeps the identities, which all start together, from renewing together.
	renew := start.Add(time.Duration(float64(life) * (0.7 + 0.1*rand.Float64())))
	return token{value: answer.Status.Token, renew: renew, expires: start.Add(life)}, nil
}

// lifeOf returns how long a token is valid from the moment that it was requested. The server returns a number of seconds
// and a time; the seconds are better, as its clock may differ from ours.
func lifeOf(answer *authenticationv1.TokenRequest, asked time.Time) time.Duration {
	if s := answer.Spec.ExpirationSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return answer.Status.ExpirationTimestamp.Sub(asked)
}

type identityTransport struct {
	*identity
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *identityTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	value, err := t.current(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(withToken(r, value))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	// The token was refused before it expired: the account was created again, or the server's signing keys were changed.
	t.drop(value)
	if r.Body != nil && r.GetBody == nil {
		return resp, nil // cannot be sent again; the next request has a new token
	}
	fresh, ferr := t.current(r.Context())
	if ferr != nil || fresh == value {
		return resp, nil
	}
	again := withToken(r, fresh)
	if r.Body != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil
		}
	}
	_ = resp.Body.Close()
	return t.next.RoundTrip(again)
}

func withToken(r *http.Request, value string) *http.Request {
	c := r.Clone(r.Context())
	c.Header.Set("Authorization", "Bearer "+value)
	return c
}
