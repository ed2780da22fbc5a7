package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sets returns the ReplicaSets that the server has, the latest revision first, and then by name.
func (s *subject) sets(ctx context.Context) ([]appsv1.ReplicaSet, error) {
	list, err := s.client.AppsV1().ReplicaSets(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	revision := func(rs appsv1.ReplicaSet) int {
		n, _ := strconv.Atoi(rs.Annotations["deployment.kubernetes.io/revision"])
		return n
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(revision(b), revision(a)), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// onSet is a step that does something with the nth of the ReplicaSets, if there are so many.
func onSet(n int, text string, do func(ctx context.Context, s *subject, rs *appsv1.ReplicaSet) error) step {
	return step{text: fmt.Sprintf("ReplicaSet %d: %s", n, text), do: func(ctx context.Context, s *subject) error {
		sets, err := s.sets(ctx)
		if err != nil || n >= len(sets) {
			return err
		}
		return do(ctx, s, &sets[n])
	}}
}

// setPatched sends a JSON merge patch to the nth ReplicaSet.
func setPatched(n int, format string, args ...any) step {
	patch := fmt.Sprintf(format, args...)
	return onSet(n, "patch "+patch, func(ctx context.Context, s *subject, rs *appsv1.ReplicaSet) error {
		return s.patch(ctx, "replicasets", rs.Name, patch)
	})
}

// setStep does to a ReplicaSet of a Deployment what a user should not do.
func setStep(r *rand.Rand) step {
	n := pick(r, 0, 0, 1, 2)
	policy := pick(r, "", metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground)
	switch r.IntN(8) {
	case 0:
		return setPatched(n, `{"spec":{"replicas":%d}}`, r.IntN(7))
	case 1:
		return onSet(n, fmt.Sprintf("delete %s", policy), func(ctx context.Context, s *subject, rs *appsv1.ReplicaSet) error {
			return s.delete(ctx, "replicasets", rs.Name, policy)
		})
	case 2:
		return setPatched(n, `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":%s}}}`,
			pick(r, "null", `"x"`, `""`, `"0"`, `"-1"`, `"30"`, `"9223372036854775806"`))
	case 3:
		// A valid number other than the Deployment's would stop upstream: "a Deployment that is scaled during a rollout does not hang".
		return setPatched(n, `{"metadata":{"annotations":{"deployment.kubernetes.io/desired-replicas":%s}}}`, pick(r, "null", `"x"`, `"-1"`, `"99999999999"`))
	case 4:
		return setPatched(n, `{"metadata":{"annotations":{"deployment.kubernetes.io/max-replicas":%s,"note":"set"}}}`, pick(r, "null", `"x"`, `"0"`, `"12"`))
	case 5:
		return setPatched(n, `{"metadata":{"labels":%s}}`, pick(r, `{"app":"other"}`, `{"app":null}`, `{"app":"web","version":"1"}`, `{"app":"web"}`))
	case 6:
		return setPatched(n, "%s", pick(r,
			`{"metadata":{"ownerReferences":null}}`,
			`{"metadata":{"finalizers":["parity/hold"]}}`,
			`{"metadata":{"finalizers":null}}`,
			`{"spec":{"minReadySeconds":1}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"fake:9"}]}}}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"fake:2"}]}}}}`,
		))
	default:
		return onSet(n, "status", func(ctx context.Context, s *subject, rs *appsv1.ReplicaSet) error {
			return s.patch(ctx, "replicasets", rs.Name, `{"status":{"availableReplicas":7,"readyReplicas":7,"replicas":7}}`, "status")
		})
	}
}

// setsRefused makes the server refuse ReplicaSets until that is reported, and take them then. What the rest of the status says
// in between is a difference: "the status of a Deployment follows its pods even if a policy forbids ...".
func setsRefused(r *rand.Rand) step {
	image := fmt.Sprintf(`{"spec":{"paused":false,"template":{"spec":{"containers":[{"name":"main","image":"refused:%d"}]}}}}`, r.IntN(100))
	const none = `{"status":{"hard":{"count/replicasets.apps":"0"},"used":{"count/replicasets.apps":"0"}}}`
	return step{text: "ReplicaSets are refused for a while: " + image, do: func(ctx context.Context, s *subject) error {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "sets"}}
		if err := s.create(ctx, "resourcequotas", q); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := s.patch(ctx, "resourcequotas", "sets", none, "status"); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond) // until admission has seen it
		if err := s.patch(ctx, "deployments", "web", image); err != nil {
			return err
		}
		reported := func() (bool, error) {
			list, err := s.client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=ReplicaSetCreateError"})
			return err == nil && len(list.Items) > 0, err
		}
		_ = eventually(ctx, 15*time.Second, reported) // never with a Deployment that is rolled back or going
		// Its count would include attempts at names that are taken.
		if err := s.delete(ctx, "resourcequotas", "sets", ""); err != nil {
			return err
		}
		return s.patch(ctx, "deployments", "web", `{"metadata":{"annotations":{"nudge":"sets"}}}`)
	}}
}

// ofSet is the name of a ReplicaSet in the message of a refused pod.
var ofSet = regexp.MustCompile(`^pods "web-[a-z0-9]+-"`)

// plainProgress removes from the conditions of a Deployment what depends on how far it got when something else happened. Which
// of several ReplicaSets without pods it names, as the first one stays named while others fail. And, for "a rollout whose start
// was not recorded ...", which ReplicaSet has progressed, and how a Recreate that goes back to one does.
func plainProgress(d *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(d.Object, "spec", "strategy", "type")
	conditions, _, _ := unstructured.NestedFieldNoCopy(d.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		c, _ := c.(map[string]any)
		message, _ := c["message"].(string)
		switch {
		case c["type"] == string(appsv1.DeploymentReplicaFailure):
			c["message"] = ofSet.ReplaceAllString(message, `pods "web-*"`)
		case c["type"] == string(appsv1.DeploymentProgressing) && kind == string(appsv1.RecreateDeploymentStrategyType) &&
			(c["reason"] == "NewReplicaSetAvailable" || c["reason"] == "ReplicaSetUpdated" || c["reason"] == "ProgressDeadlineExceeded"):
			c["message"], c["reason"], c["status"] = "<progress>", "<progress>", "<progress>"
		case c["reason"] == "NewReplicaSetAvailable":
			c["message"] = "<progress>"
		}
	}
}
