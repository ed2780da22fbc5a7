package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"orrery/kit/client"
)

// verb is what was done to a pod, as events spell it.
type verb string

const (
	creating verb = "Create"
	updating verb = "Update"
	deleting verb = "Delete"
)

// events publishes what was done for a set, on the set.
type events struct {
	recorder record.EventRecorder
}

// pod tells that something was done to a pod, or why it could not be.
func (e events) pod(set *appsv1.StatefulSet, v verb, pod string, err error) {
	switch {
	case err == nil:
		e.recorder.Eventf(set, corev1.EventTypeNormal, "Successful"+string(v), "%s Pod %s in StatefulSet %s successful", v, pod, set.Name)
	case !client.IsNamespaceTerminating(err):
		e.recorder.Eventf(set, corev1.EventTypeWarning, "Failed"+string(v), "%s Pod %s in StatefulSet %s failed error: %s", v, pod, set.Name, err)
	}
}

// claim tells that a claim was created for a pod, or why it could not be.
func (e events) claim(set *appsv1.StatefulSet, claim, pod string, err error) {
	switch {
	case err == nil:
		e.recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", claim, pod, set.Name)
	case !client.IsNamespaceTerminating(err):
		e.recorder.Eventf(set, corev1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim, pod, set.Name, err)
	}
}

// conflict tells that something else looks after a claim. The words, one of them misspelt, are those that users search for.
func (e events) conflict(set *appsv1.StatefulSet, claim string) {
	e.recorder.Eventf(set, corev1.EventTypeWarning, "ConflictingController", "PersistentVolumeClaim %s has a conflicting "+
		"OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", claim)
}

// refused tells that the set's update strategy is not on offer.
func (e events) refused(set *appsv1.StatefulSet, err error) {
	e.recorder.Event(set, corev1.EventTypeWarning, "UnknownStrategy", err.Error())
}
