package kit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// The promises of the loop: whatever happens, a key is never lost, never runs twice at the same time, and runs again
// after its last change.

// ordeal puts a controller of config maps through a sequence of events that a string of bytes spells out.
type ordeal struct {
	t     *testing.T
	api   *kittest.API
	store cache.Store[*corev1.ConfigMap]
	write *client.Client

	mu      sync.Mutex // guards the fields below
	script  []byte     // what is left of it
	calm    bool       // nothing goes wrong any more
	running map[kit.Key]bool
	last    map[kit.Key]string // the version that the last reconcile saw; empty for none
	ended   map[kit.Key]bool   // whether the last reconcile ended with nothing more to do
}

const ordealKeys = 4

var mapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func (o *ordeal) next() byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.script) == 0 || o.calm {
		return 0
	}
	b := o.script[0]
	o.script = o.script[1:]
	return b
}

// Reconcile notes what it sees and ends in one of all possible ways.
func (o *ordeal) Reconcile(ctx context.Context, key kit.Key) (res kit.Result, err error) {
	o.mu.Lock()
	if o.running[key] {
		o.t.Errorf("%s runs twice at the same time", key)
	}
	o.running[key] = true
	o.mu.Unlock()
	version := ""
	if cm, ok := o.store.Get(key); ok {
		version = cm.ResourceVersion
	}
	mishap := o.next()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.running[key] = false
		o.last[key], o.ended[key] = version, err == nil && res == kit.Done && mishap%8 != 1
	}()
	time.Sleep(time.Duration(mishap>>3) * 10 * time.Millisecond)
	switch mishap % 8 {
	case 1:
		panic("ordeal")
	case 2:
		return kit.Done, errors.New("ordeal")
	case 3:
		return kit.After(time.Duration(mishap) * 50 * time.Millisecond), nil
	case 4, 5, 6:
		return kit.Done, o.touch(ctx, key, mishap)
	case 7:
		return kit.Done, kit.Batch(ctx, 2, 2, func(ctx context.Context, i int) error { return o.touch(ctx, key, mishap+byte(i)) })
	}
	return kit.Done, nil
}

// touch writes to the key's own object: an update, a patch, or a delete.
func (o *ordeal) touch(ctx context.Context, key kit.Key, how byte) error {
	cm, ok := o.store.Get(key)
	if !ok {
		return nil
	}
	var err error
	switch how % 3 {
	case 0:
		next := cm.DeepCopy()
		next.Data = map[string]string{"by": fmt.Sprint(how, cm.ResourceVersion)}
		_, err = client.Update(ctx, o.write, next)
	case 1:
		_, err = client.PatchObject(ctx, o.write, cm, client.MergePatch([]byte(`{"data":{"patched":"`+cm.ResourceVersion+`"}}`)))
	default:
		err = client.Delete(ctx, o.write, cm, client.IfUID(cm.UID))
	}
	return client.IgnoreNotFound(err)
}

// react makes some writes fail in the ways that a network has.
func (o *ordeal) react(r *kittest.Request) *kittest.Reaction {
	if r.User == "informers" && r.Verb != "watch" {
		return nil
	}
	switch o.next() % 12 {
	case 1:
		return &kittest.Reaction{Drop: r.Verb != "watch", Err: errors.New("connection reset")}
	case 2:
		return &kittest.Reaction{Err: errors.New("connection refused")}
	case 3:
		return kittest.Refuse(http.StatusConflict, "ordeal")
	case 4:
		return kittest.Refuse(http.StatusTooManyRequests, "ordeal")
	case 5:
		return kittest.Refuse(http.StatusInternalServerError, "ordeal")
	}
	return nil
}

// event is something that users and the network do.
func (o *ordeal) event(n int, run *kittest.Running) *kittest.Running {
	b := o.next()
	cm := settings(fmt.Sprintf("k%d", n%ordealKeys))
	switch b % 16 {
	case 0, 1, 2, 3, 4, 5, 6:
		cm.Data = map[string]string{"user": fmt.Sprint(n)}
		o.api.Put(o.t, cm)
	case 7, 8, 9:
		o.api.DeleteIfExists(o.t, cm)
	case 10:
		o.api.DelayWatch(mapKind, time.Duration(b)*10*time.Millisecond)
	case 11:
		o.api.FreezeWatch(mapKind, b > 128)
	case 12:
		o.api.BreakWatch(mapKind)
	case 13:
		o.api.Compact(mapKind)
	case 14:
		run.Stop()
		o.mu.Lock()
		clear(o.last) // a new process knows only what there is
		clear(o.ended)
		o.mu.Unlock()
		return o.start()
	}
	if b > 100 {
		time.Sleep(time.Duration(b) * time.Millisecond)
	}
	return run
}

func (o *ordeal) start() *kittest.Running {
	return o.api.Run(o.t, func(cc kit.ControllerContext) (bool, error) {
		o.store, o.write = kit.Store[corev1.ConfigMap](cc), cc.Client
		var b byte = 3
		if left := o.left(); len(left) > 0 {
			b = left[0]
		}
		source := kit.For[corev1.ConfigMap]()
		if b%2 == 1 {
			source = source.Urgent()
		}
		if b%5 == 1 {
			source = source.Delayed(time.Duration(b) * time.Millisecond)
		}
		return true, kit.NewController(cc, o).Watch(source).Workers(1 + int(b)%4).Complete()
	})
}

// survive runs the whole script and then looks at every key once the world has been calm for long enough.
func survive(t *testing.T, script []byte) {
	inBubble(t, func(t *testing.T) {
		o := &ordeal{t: t, api: kittest.New(t, settings("k0"), settings("k1")), script: script, running: map[kit.Key]bool{}, last: map[kit.Key]string{}, ended: map[kit.Key]bool{}}
		o.api.AllowPanics()
		o.api.React(o.react)
		run := o.start()
		for n := 0; n < 200 && len(o.left()) > 0; n++ {
			run = o.event(n, run)
		}
		o.mu.Lock()
		o.calm = true
		o.mu.Unlock()
		o.api.DelayWatch(mapKind, 0)
		o.api.FreezeWatch(mapKind, false)
		time.Sleep(20 * time.Minute)
		o.check(run)
	})
}

func (o *ordeal) left() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.script
}

func (o *ordeal) check(run *kittest.Running) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range ordealKeys {
		cm := settings(fmt.Sprintf("k%d", n))
		if !o.api.Get(o.t, cm) {
			cm.ResourceVersion = ""
		}
		key := kit.KeyOf(cm)
		if last, known := o.last[key]; known && (last != cm.ResourceVersion || !o.ended[key]) {
			o.t.Errorf("%s was last reconciled at version %q (ended: %v), and is at %q", key, last, o.ended[key], cm.ResourceVersion)
		} else if !known && cm.ResourceVersion != "" {
			o.t.Errorf("%s was never reconciled", key)
		}
		if o.running[key] {
			o.t.Errorf("%s is still running", key)
		}
	}
	s := run.Controllers[0].State(time.Now())
	if s.QueueLength != 0 || len(s.Running) != 0 || s.Degraded != "" {
		o.t.Errorf("after the calm: %d keys wait, %d run, degraded: %q", s.QueueLength, len(s.Running), s.Degraded)
	}
}

func TestNoKeyIsLostWhateverHappens(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	for seed := range rounds {
		script := make([]byte, 50+seed)
		rnd := rand.New(rand.NewPCG(uint64(seed), 37))
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		if survive(t, script); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzNoKeyIsLostWhateverHappens is best run with -fuzzminimizetime 1x: goroutines take turns as they like, so that an
// input cannot be made smaller by trying.
func FuzzNoKeyIsLostWhateverHappens(f *testing.F) {
	f.Add([]byte("a key is never lost, never runs twice at the same time, and runs again after its last change"))
	f.Add([]byte{14, 14, 14, 13, 12, 11, 255, 254, 253, 1, 2, 3, 4, 5, 6, 7})
	f.Fuzz(survive)
}
