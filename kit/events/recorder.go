package events

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// logVerbosity is the level at which events appear in the process's own log.
const logVerbosity = 3

// Publisher sends events to the API server under one identity.
type Publisher struct{ broadcaster record.EventBroadcaster }

// NewPublisher returns a publisher that works in a goroutine of its own until ctx ends.
func NewPublisher(ctx context.Context, config *rest.Config) (*Publisher, error) {
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("event client for %s: %w", config.Host, err)
	}
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartStructuredLogging(logVerbosity)
	b.StartRecordingToSink(newGatheringSink(ctx, &typedcorev1.EventSinkImpl{Interface: core.Events("")}))
	return &Publisher{b}, nil
}

// Recorder returns a recorder whose events come from the component. The scheme tells the kinds of the objects that they
// are about. A full buffer drops events and never blocks the caller.
func (p *Publisher) Recorder(scheme *runtime.Scheme, component string) record.EventRecorder {
	return newBounded(p.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}))
}
