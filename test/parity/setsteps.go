package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
