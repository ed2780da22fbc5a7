package faultproxy

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"orrery/hack/localcluster/cluster"
)

func TestTheProxyMisbehavesAsItIsTold(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Name: t.Name(), NoKwok: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(c.Kubeconfig(), path); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces := func() error {
		_, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := namespaces(); err != nil {
		t.Fatalf("the administrator is not let through: %v", err)
	}
	p.Misbehave(func(w http.ResponseWriter, _ *http.Request) bool {
		Refuse(w, http.StatusConflict, "Conflict")
		return true
	}, nil)
	if err := namespaces(); !apierrors.IsConflict(err) {
		t.Errorf("a refusal: %v", err)
	}
	p.Misbehave(func(http.ResponseWriter, *http.Request) bool { Lose(); return true }, nil)
	if err := namespaces(); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("a request that is lost: %v", err)
	}
	served := 0
	p.Misbehave(nil, func(*http.Response) error { served++; return errors.New("lost") })
	if err := namespaces(); err == nil || served == 0 {
		t.Errorf("an answer that is lost: %v, after %d answers", err, served)
	}
	p.Misbehave(nil, nil)
	w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Cut()
	for range w.ResultChan() { // ends, or the test times out
	}
	if err := namespaces(); err != nil {
		t.Errorf("after all: %v", err)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		body := Delay(io.NopCloser(strings.NewReader("text")), 3*time.Second)
		text, err := io.ReadAll(body)
		if string(text) != "text" || err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("%q, %v after %s", text, err, time.Since(begin))
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	})
}
