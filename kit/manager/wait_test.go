package manager

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// daemon is what a controller manager waits for.
var daemon = Server{Probe: "/api/v1/namespaces/kube-system", Role: "those of system:kube-controller-manager"}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(r *http.Request, code int, doc any) (*http.Response, error) {
	data, err := json.Marshal(doc)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, err
}

func TestWhatNoWaitingCanMendIsSaid(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		name   string
		err    error
		waited time.Duration
		want   string // part of the message; empty: wait on
	}{
		{"wrong CA", x509.UnknownAuthorityError{}, 0, "certificate-authority"},
		{"wrong name", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}, 0, "server"},
		{"expired", x509.CertificateInvalidError{Reason: x509.Expired}, 0, "not valid now"},
		{"credentials not known yet", apierrors.NewUnauthorized("no"), time.Second, ""}, // as in k/k#65785
		{"refused credentials", apierrors.NewUnauthorized("no"), time.Minute, "credentials"},
		{"no permission yet", apierrors.NewForbidden(pods, "", errors.New("no")), time.Second, ""},
		{"no permission", apierrors.NewForbidden(pods, "", errors.New("no")), time.Minute, "system:kube-controller-manager"},
		{"not up yet", errors.New("connection refused"), time.Hour, ""},
		{"not ready yet", apierrors.NewServiceUnavailable("starting"), time.Hour, ""},
	} {
		now := time.Now()
		got := daemon.hopeless(fmt.Errorf("get: %w", tc.err), now.Add(-tc.waited), now)
		if (got != nil) != (tc.want != "") || got != nil && (!strings.Contains(got.Error(), tc.want) || !errors.Is(got, tc.err) && !strings.Contains(got.Error(), tc.err.Error())) {
			t.Errorf("%s: %v, want %q", tc.name, got, tc.want)
		}
	}
}

func TestTheServerMayComeUpLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, tries := time.Now(), 0
		config := &rest.Config{Host: "http://server", QPS: -1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			tries++
			switch up := time.Since(start); {
			case up < time.Minute:
				return nil, errors.New("connection refused")
			case up < 65*time.Second: // its authenticators have not begun to work
				return answer(r, 401, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnauthorized, Code: 401})
			case r.URL.Path == "/version":
				return answer(r, 200, map[string]string{"major": "1"})
			case up < 70*time.Second: // its own roles are not there yet
				return answer(r, 403, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: 403})
			}
			return answer(r, 404, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404})
		})}
		if err := waitForServer(t.Context(), config, daemon, klog.Background()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 70*time.Second || took > 72*time.Second || tries > 400 {
			t.Errorf("went on after %s and %d tries", took, tries)
		}
	})
}

func TestAStopEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://server", QPS: -1, Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") })}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := waitForServer(ctx, config, daemon, klog.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
	})
}
