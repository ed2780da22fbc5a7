package kit

import (
	"context"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit/cache"
)

// BenchmarkReconcile measures what the kit itself costs per reconcile, from adding the key to filing the outcome.
func BenchmarkReconcile(b *testing.B) {
	cc := ControllerContext{Name: "bench", Cache: cache.New(cache.Options{}), Log: klog.Background()}.In(NewScope())
	nothing := Func[Key](func(context.Context, Key) (Result, error) { return Done, nil })
	if err := NewController[Key](cc, nothing).Complete(); err != nil {
		b.Fatal(err)
	}
	c := cc.scope.Controllers()[0].(*controller[Key])
	defer c.queue.ShutDown()
	keys := make([]Key, 5000)
	for i := range keys {
		keys[i] = Key{Namespace: "default", Name: "web-" + time.Unix(int64(i), 0).String()}
	}
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.queue.Add(keys[i%len(keys)])
		key, _ := c.queue.Get()
		c.step(ctx, key)
	}
}
