package client_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"orrery/kit/client"
)

// liveClient returns a client of the cluster that KUBECONFIG names, and a namespace for the test.
func liveClient(t *testing.T) (context.Context, *client.Client, string) {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Skip("needs a cluster: set KUBECONFIG, for example to that of hack/localcluster")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: liveMapper(t, config)})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := client.Create(t.Context(), c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kit-client-"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.Delete(ctx, c, ns); err != nil {
			t.Error(err)
		}
	})
	// Pods need this account; a cluster without a controller manager does not make it.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns.Name}}
	if _, err := client.Create(t.Context(), c, account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return t.Context(), c, ns.Name
}

func liveMapper(t *testing.T, config *rest.Config) *restmapper.DeferredDiscoveryRESTMapper {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
}
