package podctl

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// Reasons of the events about pods, published on their owner.
const (
	ReasonCreated      = "SuccessfulCreate"
	ReasonCreateFailed = "FailedCreate"
	ReasonDeleted      = "SuccessfulDelete"
	ReasonDeleteFailed = "FailedDelete"
)

// errNoLabels is for a template that the API's validation should have refused: its pods would match no selector, and
// the owner would create pods for ever.
var errNoLabels = errors.New("unable to create pods, no labels")

// Control creates and deletes pods for owners and tells of it in events.
type Control struct {
	// Client writes to the server.
	Client *client.Client
	// Recorder publishes the events.
	Recorder record.EventRecorder
	// Lost is called with the owner of a pod that may have been created though the create failed. Nil is not called.
	Lost func(owner client.Object)
}

// Create creates a pod for its owner and returns the metadata of what was stored, which is all that its callers read:
// the cache will show the rest. The error is the server's, unwrapped: it stands in conditions that users read. A refusal because the namespace is being deleted is no event.
func (c Control) Create(ctx context.Context, owner client.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	if len(pod.Labels) == 0 {
		return nil, errNoLabels
	}
	made, err := client.Create(ctx, c.Client, pod, client.Brief)
	if err != nil {
		if c.Lost != nil && client.IsOutcomeUnknown(err) {
			c.Lost(owner)
		}
		if !client.IsNamespaceTerminating(err) {
			c.Recorder.Eventf(owner, corev1.EventTypeWarning, ReasonCreateFailed, "Error creating: %v", err)
		}
		return nil, err
	}
	klog.FromContext(ctx).V(4).Info("Controller created pod", "controller", klog.KObj(owner), "pod", klog.KObj(made))
	c.Recorder.Eventf(owner, corev1.EventTypeNormal, ReasonCreated, "Created pod: %v", made.Name)
	return made, nil
}

// Delete deletes a pod of an owner. A pod that is gone already is a NotFound error, and one that another pod of the same
// name has replaced is a conflict; neither is an event, and the caller decides whether it matters.
func (c Control) Delete(ctx context.Context, owner client.Object, pod *corev1.Pod) error {
	log := klog.FromContext(ctx)
	log.V(2).Info("Deleting pod", "controller", klog.KObj(owner), "pod", klog.KObj(pod))
	err := client.Delete(ctx, c.Client, pod, client.IfUID(pod.UID))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		log.V(4).Info("Pod has already been deleted", "pod", klog.KObj(pod), "answer", err)
		return err
	case err != nil:
		c.Recorder.Eventf(owner, corev1.EventTypeWarning, ReasonDeleteFailed, "Error deleting: %v", err)
		return fmt.Errorf("unable to delete pods: %w", err)
	}
	c.Recorder.Eventf(owner, corev1.EventTypeNormal, ReasonDeleted, "Deleted pod: %v", pod.Name)
	return nil
}

// Closing reports whether a namespace is known to be on its way out. Nothing can be created in it any more: asking all the
// same, once for each pod that goes, would only slow its deletion down.
func Closing(namespaces cache.Store[*corev1.Namespace], name string) bool {
	ns, ok := namespaces.Get(kit.Key{Name: name})
	return ok && ns.DeletionTimestamp != nil
}
