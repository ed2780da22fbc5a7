package cache_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"orrery/kit/cache"
	"orrery/kit/client"
)

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// liveCache returns a client and a cache of the cluster that KUBECONFIG names, and a namespace for the test.
func liveCache(t *testing.T) (context.Context, *client.Client, *cache.Cache, string) {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Skip("needs a cluster: set KUBECONFIG, for example to that of hack/localcluster")
	}
	config := must(clientcmd.BuildConfigFromFlags("", path))
	config.QPS, config.ContentType, config.AcceptContentTypes = -1, "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(must(discovery.NewDiscoveryClientForConfig(config))))
	c := must(client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ns := must(client.Create[corev1.Namespace](ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kit-cache-"}}))
	held := cache.New(cache.Options{Client: c, Log: klog.FromContext(ctx)})
	held.Start(ctx)
	t.Cleanup(func() {
		if err := client.Delete(ctx, c, ns); err != nil {
			t.Error(err)
		}
		cancel()
		held.Wait()
	})
	return ctx, c, held, ns.Name
}

// TestLiveForms follows three kinds of a real cluster in the three forms, and waits for its own writes in each.
func TestLiveForms(t *testing.T) {
	ctx, c, held, ns := liveCache(t)
	maps := must(cache.Of[corev1.ConfigMap](held)).Informer()
	secrets := must(held.Informer(secretKind, cache.MetadataOnly))
	accounts := must(held.Informer(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), cache.Unstructured))
	for _, i := range []*cache.Informer{maps, secrets, accounts} {
		select {
		case <-synced(ctx, i):
		case <-ctx.Done():
			t.Fatalf("%s is not filled: %s", i, i.LastError())
		}
	}
	meta := metav1.ObjectMeta{Namespace: ns, Name: "kit"}
	logged := func(write func(context.Context) error) client.Write {
		t.Helper()
		var l client.WriteLog
		if err := write(client.WithWriteLog(ctx, &l)); err != nil {
			t.Fatal(err)
		}
		return l.Take()[0]
	}
	for _, f := range []struct {
		informer *cache.Informer
		create   func(context.Context) error
	}{
		{maps, func(ctx context.Context) error {
			_, err := client.Create(ctx, c, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "b"}})
			return err
		}},
		{secrets, func(ctx context.Context) error {
			_, err := client.Create(ctx, c, &corev1.Secret{ObjectMeta: meta})
			return err
		}},
		{accounts, func(ctx context.Context) error {
			_, err := client.Create(ctx, c, &corev1.ServiceAccount{ObjectMeta: meta})
			return err
		}},
	} {
		write := logged(f.create)
		waitSeen(t, ctx, f.informer, write)
		got, ok := f.informer.Get(write.Key)
		if !ok || got.GetUID() != write.UID || got.GetManagedFields() != nil {
			t.Fatalf("%s: cached %v %v", f.informer, ok, got)
		}
		if kind := got.GetObjectKind().GroupVersionKind(); f.informer.Form != cache.Structured && kind != f.informer.GVK {
			t.Errorf("%s: cached as %s", f.informer, kind)
		}
		deleted := logged(func(ctx context.Context) error { return client.Delete(ctx, c, got, client.IfUID(got.GetUID())) })
		waitSeen(t, ctx, f.informer, deleted)
		if _, ok := f.informer.Get(write.Key); ok {
			t.Errorf("%s: still cached after its delete was seen", f.informer)
		}
		if f.informer.LastError() != "" {
			t.Errorf("%s: %s", f.informer, f.informer.LastError())
		}
	}
}

func waitSeen(t *testing.T, ctx context.Context, i *cache.Informer, w client.Write) {
	t.Helper()
	seen := make(chan struct{})
	cancel := i.WhenSeen(w, func() { close(seen) })
	defer cancel()
	select {
	case <-seen:
	case <-ctx.Done():
		t.Fatalf("%s never showed %+v", i, w)
	}
	if !i.Seen(w) {
		t.Errorf("%s woke a waiter without showing %+v", i, w)
	}
}

// synced returns a channel that is closed once the informer is filled.
func synced(ctx context.Context, i *cache.Informer) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			if i.HasSynced() {
				close(c)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return c
}
