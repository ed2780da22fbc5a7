package kit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit/client"
)

// PanicPolicy says what becomes of the process when a controller panics.
type PanicPolicy string

// The policies.
const (
	// IsolatePanics keeps the process alive: the panic is logged and counted, and a key that was reconciled backs off.
	IsolatePanics PanicPolicy = "isolate"
	// CrashOnPanic ends the process at once, after the log names the object.
	CrashOnPanic PanicPolicy = "crash"
)

// Panic is a panic that has been caught.
type Panic struct {
	At     time.Time `json:"at"`
	Loop   string    `json:"loop"`             // or the controller, if it belongs to no single loop
	Where  string    `json:"where"`            // what panicked: a reconcile, filter, handler or source
	Object string    `json:"object,omitempty"` // the key, or the changed object
	Value  string    `json:"value"`
	Stack  string    `json:"stack,omitempty"` // its first 4 KiB
}

// panics remembers the last panics of a controller. All its loops share it, as filters and handlers belong to none.
type panics struct {
	mu   sync.Mutex // guards last
	last []Panic    // oldest first
}

func (p *panics) add(one Panic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last) == panicsLen {
		p.last = slices.Delete(p.last, 0, 1)
	}
	p.last = append(p.last, one)
}

// of returns the last panics of a loop, and those that belong to no single loop of its controller, newest first.
func (p *panics) of(loop, controller string) (last []Panic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range slices.Backward(p.last) {
		if one.Loop == loop || one.Loop == controller {
			last = append(last, one)
		}
	}
	return last
}

// panickedOn is panicked for a panic in the handling of a change.
func (cc ControllerContext) panickedOn(err error, where string, old, new client.Object) {
	object := ""
	for _, o := range []client.Object{new, old} {
		if o != nil && !isNil(o) {
			object = fmt.Sprintf("%T %s", o, keyText(KeyOf(o)))
			break
		}
	}
	cc.panicked(cc.Name, err, where, object)
}

// panicked logs a panic and counts it under the name of a loop, or of the controller if no single loop is concerned. If
// the policy is to crash it does not return.
func (cc ControllerContext) panicked(loop string, err error, where, object string) {
	one := Panic{At: time.Now(), Loop: loop, Where: where, Object: object, Value: errorText(err)}
	log := cc.Log.WithValues("in", where, "object", object)
	var p *PanicError
	if errors.As(err, &p) {
		one.Stack = clip(string(p.Stack), stackLimit)
		log = log.WithValues("stack", string(p.Stack))
	}
	cc.Metrics.panics.WithLabelValues(loop).Inc()
	if cc.panics != nil {
		cc.panics.add(one)
	}
	if cc.PanicPolicy != CrashOnPanic {
		log.Error(err, "Caught a panic")
		return
	}
	log.Error(err, "A controller panicked; ending the process, as the panic policy says")
	klog.Flush()
	crash(fmt.Sprintf("%s: %s of %s: %v", loop, where, object, err))
}

// crash ends the process. A panic in a goroutine of its own cannot be recovered by anyone, and the caller must not go on
// meanwhile.
func crash(why string) {
	go panic(why)
	select {}
}

// isNil reports whether an object is a typed nil, as a missing side of a change is.
func isNil(o client.Object) bool {
	v := reflect.ValueOf(o)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
