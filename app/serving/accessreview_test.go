package serving

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// fakeReviews answers subject access reviews from a function and counts them.
type fakeReviews struct {
	authorizationv1client.SubjectAccessReviewInterface
	answer func(ctx context.Context, try int) (authorizationv1.SubjectAccessReviewStatus, error)

	mu    sync.Mutex // guards tries
	tries int
}

func (f *fakeReviews) Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	f.mu.Lock()
	f.tries++
	try := f.tries
	f.mu.Unlock()
	status, err := f.answer(ctx, try)
	return &authorizationv1.SubjectAccessReview{Spec: review.Spec, Status: status}, err
}

var jane = &user.DefaultInfo{Name: "jane", Groups: []string{"devs"}}

func TestVerdictsAreRememberedByOutcome(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			fake := &fakeReviews{answer: func(context.Context, int) (authorizationv1.SubjectAccessReviewStatus, error) {
				return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Reason: "because"}, nil
			}}
			r := newAccessReviewer(fake, 30*time.Second, 5*time.Second)
			ttl := map[bool]time.Duration{true: 30 * time.Second, false: 5 * time.Second}[allowed]
			check := func(wantTries int) {
				t.Helper()
				got, reason, err := r.review(t.Context(), jane, "get", "/metrics")
				if got != allowed || reason != "because" || err != nil || fake.tries != wantTries {
					t.Errorf("review = %t, %q, %v after %d reviews, want %t after %d", got, reason, err, fake.tries, allowed, wantTries)
				}
			}
			check(1)
			time.Sleep(ttl - time.Millisecond)
			check(1)
			time.Sleep(2 * time.Millisecond)
			check(2)
		})
	}
}

func TestVerdictsAreKeptApart(t *testing.T) {
	fake := &fakeReviews{answer: func(_ context.Context, try int) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: try == 1}, nil
	}}
	r := newAccessReviewer(fake, time.Minute, time.Minute)
	for i, ask := range []struct {
		who        user.Info
		verb, path string
	}{
		{jane, "get", "/metrics"},
		{jane, "put", "/metrics"},
		{jane, "get", "/configz"},
		{&user.DefaultInfo{Name: "jane", Groups: []string{"ops"}}, "get", "/metrics"},
		{&user.DefaultInfo{Name: "jane", Groups: []string{"devs"}, Extra: map[string][]string{"a": {"b"}}}, "get", "/metrics"},
	} {
		if allowed, _, err := r.review(t.Context(), ask.who, ask.verb, ask.path); allowed != (i == 0) || err != nil {
			t.Errorf("%d: allowed %t, %v", i, allowed, err)
		}
	}
}

func TestHugePathsAreNotRemembered(t *testing.T) {
	fake := &fakeReviews{answer: func(context.Context, int) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	}}
	r := newAccessReviewer(fake, time.Minute, time.Minute)
	for range 2 {
		if _, _, err := r.review(t.Context(), jane, "get", "/"+strings.Repeat("x", maxCachedPath)); err != nil {
			t.Fatal(err)
		}
	}
	if fake.tries != 2 {
		t.Errorf("%d reviews, want 2", fake.tries)
	}
}

func TestRequestsInFlightShareAReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeReviews{answer: func(context.Context, int) (authorizationv1.SubjectAccessReviewStatus, error) {
			time.Sleep(time.Second)
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
		}}
		r := newAccessReviewer(fake, 0, 0) // even without a cache
		first, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, _, err := r.review(first, jane, "get", "/metrics"); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that went away: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			callers.Go(func() {
				if allowed, _, err := r.review(t.Context(), jane, "get", "/metrics"); !allowed || err != nil {
					t.Errorf("allowed %t, %v", allowed, err)
				}
			})
		}
		synctest.Wait()
		cancel() // must not take the review from the others
		callers.Wait()
		if fake.tries != 1 {
			t.Errorf("%d reviews, want 1", fake.tries)
		}
	})
}

func TestReviewTriesAgainWhatMayPass(t *testing.T) {
	busy := apierrors.NewTooManyRequests("busy", 0)
	refused := apierrors.NewForbidden(authorizationv1.Resource("subjectaccessreviews"), "", errors.New("no"))
	for _, tc := range []struct {
		name      string
		answer    func(try int) error
		tries     int
		succeeded bool
	}{
		{"passes", func(try int) error {
			if try < 3 {
				return busy
			}
			return nil
		}, 3, true},
		{"stays", func(int) error { return busy }, 5, false},
		{"is final", func(int) error { return refused }, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := &fakeReviews{answer: func(_ context.Context, try int) (authorizationv1.SubjectAccessReviewStatus, error) {
					return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, tc.answer(try)
				}}
				r := newAccessReviewer(fake, time.Minute, time.Minute)
				allowed, _, err := r.review(t.Context(), jane, "get", "/metrics")
				if fake.tries != tc.tries || allowed != tc.succeeded || (err == nil) != tc.succeeded {
					t.Errorf("allowed %t, %v after %d tries", allowed, err, fake.tries)
				}
			})
		})
	}
}

func TestReviewThatHangsOrPanicsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := &fakeReviews{answer: func(ctx context.Context, _ int) (authorizationv1.SubjectAccessReviewStatus, error) {
			<-ctx.Done()
			return authorizationv1.SubjectAccessReviewStatus{}, ctx.Err()
		}}
		start := time.Now()
		_, _, err := newAccessReviewer(hanging, 0, 0).review(t.Context(), jane, "get", "/")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != reviewsTimeout {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		panicking := &fakeReviews{answer: func(context.Context, int) (authorizationv1.SubjectAccessReviewStatus, error) { panic("poison") }}
		if _, _, err := newAccessReviewer(panicking, 0, 0).review(t.Context(), jane, "get", "/"); err == nil || !strings.Contains(err.Error(), "poison") {
			t.Errorf("panic: %v", err)
		}
		both := &fakeReviews{answer: func(context.Context, int) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, nil
		}}
		if allowed, _, err := newAccessReviewer(both, 0, 0).review(t.Context(), jane, "get", "/"); allowed || err == nil {
			t.Errorf("allowed and denied: %t, %v", allowed, err)
		}
	})
}

func TestOpenPaths(t *testing.T) {
	open := newOpenPaths([]string{"/healthz", "livez", "/debug/*", ""})
	for path, want := range map[string]bool{
		"/healthz": true, "/healthz/": false, "/healthz/ping": false, "/livez": true,
		"/debug/": true, "/debug/pprof": true, "/debug": false, "/": true, "/metrics": false,
	} {
		if got := open.has(path); got != want {
			t.Errorf("has(%q) = %t", path, got)
		}
	}
	if all := newOpenPaths([]string{"*"}); !all.has("/anything") {
		t.Error("* does not match everything")
	}
}

// fakeTokens answers token reviews.
type fakeTokens struct {
	authenticationv1client.TokenReviewInterface
	status authenticationv1.TokenReviewStatus
	errs   []error // of the first tries
	tries  int
}

func (f *fakeTokens) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	f.tries++
	if f.tries <= len(f.errs) {
		return nil, f.errs[f.tries-1]
	}
	return &authenticationv1.TokenReview{Spec: review.Spec, Status: f.status}, nil
}

func TestTokenReview(t *testing.T) {
	authenticated := authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: "u", UID: "1", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}}
	internal := apierrors.NewInternalError(errors.New("etcd"))
	for _, tc := range []struct {
		name   string
		fake   *fakeTokens
		ok     bool
		errHas string
	}{
		{"a user", &fakeTokens{status: authenticated}, true, ""},
		{"a user after some trouble", &fakeTokens{status: authenticated, errs: []error{internal, internal}}, true, ""},
		{"nobody", &fakeTokens{}, false, ""},
		{"nobody, with a reason", &fakeTokens{status: authenticationv1.TokenReviewStatus{Error: "expired"}}, false, "expired"},
		{"not permitted", &fakeTokens{errs: []error{apierrors.NewUnauthorized("who are you")}}, false, "review bearer token: who are you"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &tokenReviewer{reviews: tc.fake, backoff: reviewBackoff}
				response, ok, err := r.AuthenticateToken(t.Context(), "token")
				if ok != tc.ok || (err == nil) != (tc.errHas == "") || err != nil && !strings.Contains(err.Error(), tc.errHas) {
					t.Fatalf("ok %t, %v", ok, err)
				}
				if who := response; tc.ok && (who.User.GetName() != "u" || who.User.GetUID() != "1" || who.User.GetGroups()[0] != "g" || who.User.GetExtra()["k"][0] != "v") {
					t.Errorf("user %+v", who.User)
				}
			})
		})
	}
}

func TestAuthenticatedGroupIsAddedOnce(t *testing.T) {
	for _, tc := range []struct {
		who  user.DefaultInfo
		want string
	}{
		{user.DefaultInfo{Name: "a", Groups: []string{"g"}}, "g system:authenticated"},
		{user.DefaultInfo{Name: "a", Groups: []string{"system:authenticated", "g"}}, "system:authenticated g"},
		{user.DefaultInfo{Name: "system:anonymous"}, ""},
		{user.DefaultInfo{Name: "a", Groups: []string{"system:unauthenticated"}}, "system:unauthenticated"},
	} {
		next := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &tc.who}, true, nil
		})
		response, _, _ := authenticated(next).AuthenticateRequest(nil)
		if got := strings.Join(response.User.GetGroups(), " "); got != tc.want {
			t.Errorf("%v: groups %q, want %q", tc.who, got, tc.want)
		}
	}
}
