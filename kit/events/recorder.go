package events

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// logVerbosity is the level at which events appear in the process's own log.
const logVerbosity = 3

// Publisher sends events to the API server under one identity.
type Publisher struct {
	broadcaster record.EventBroadcaster
	sink        *gatheringSink
	marks       atomic.Int64 // used so far; see Flush
}

// NewPublisher returns a publisher that sends events in the background until ctx ends.
func NewPublisher(ctx context.Context, config *rest.Config) (*Publisher, error) {
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("event client for %s: %w", config.Host, err)
	}
	return newPublisher(ctx, &typedcorev1.EventSinkImpl{Interface: core.Events("")}), nil
}

func newPublisher(ctx context.Context, server record.EventSink) *Publisher {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartEventWatcher(logged(klog.FromContext(ctx)))
	sink := newGatheringSink(ctx, server)
	b.StartRecordingToSink(sink)
	return &Publisher{broadcaster: b, sink: sink}
}

// logged writes events to the process's own log.
func logged(log klog.Logger) func(*corev1.Event) {
	return func(e *corev1.Event) {
		if isMark(e) {
			return
		}
		o := &e.InvolvedObject
		log.V(logVerbosity).Info("Event occurred", "object", klog.KRef(o.Namespace, o.Name), "fieldPath", o.FieldPath,
			"kind", o.Kind, "apiVersion", o.APIVersion, "type", e.Type, "reason", e.Reason, "message", e.Message)
	}
}

// Recorder returns a recorder for events whose source is the component. The scheme maps objects to kinds. When the buffer
// is full, events are dropped; the caller is never blocked.
func (p *Publisher) Recorder(scheme *runtime.Scheme, component string) record.EventRecorder {
	return newBounded(p.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}))
}
