package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

var jobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// asking returns a client that asks the server which kinds it has.
func asking(api *kittest.API) *client.Client {
	config := api.Config("informers")
	return must(client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: must(client.NewMapper(config, nil))}))
}

func TestAMissingKindIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.Serve(jobs, false)
		c := cache.New(cache.Options{Client: asking(api), Await: true})
		store, err := cache.Of[batchv1.Job](c)
		if err != nil {
			t.Fatal(err)
		}
		i := store.Informer()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() {
			cancel()
			c.Wait()
		})
		c.Start(ctx)
		api.Pass(5 * time.Minute)
		if i.HasSynced() || !i.Missing() || i.LastError() == "" || i.Resource() != jobs {
			t.Errorf("without the kind: synced %t, missing %t, %q, resource %v", i.HasSynced(), i.Missing(), i.LastError(), i.Resource())
		}
		api.Serve(jobs, true)
		api.Create(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}})
		api.Pass(15 * time.Second)
		if !i.HasSynced() || i.Missing() || i.LastError() != "" || i.Len() != 1 {
			t.Errorf("with the kind: synced %t, missing %t, %q, %d objects", i.HasSynced(), i.Missing(), i.LastError(), i.Len())
		}
	})
}

func TestAMissingKindIsAnErrorOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.Serve(jobs, false)
		c := cache.New(cache.Options{Client: asking(api)})
		if _, err := cache.Of[batchv1.Job](c); !client.IsNotServed(err) {
			t.Errorf("%v for a kind that the server does not have", err)
		}
	})
}
