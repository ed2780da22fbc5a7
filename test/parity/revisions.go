package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// removeQuotas deletes all quotas.
func removeQuotas(ctx context.Context, s *subject) error {
	return s.any.Resource(kinds["resourcequotas"]).Namespace(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// addRobot creates the service account that templates may name.
func addRobot(ctx context.Context, s *subject) error {
	return s.create(ctx, "serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}})
}

// touched is a step a moment after which an object is touched, so that its controller looks at it although it does not watch
// what the step has changed. It is touched once: a second change could refuse the status that follows the first one.
func touched(resource, name, text string, do func(ctx context.Context, s *subject) error) step {
	return step{text: text + ", and touch " + name, do: func(ctx context.Context, s *subject) error {
		err := do(ctx, s)
		time.Sleep(time.Second)
		return errors.Join(err, s.patch(ctx, resource, name, fmt.Sprintf(`{"metadata":{"annotations":{"touched":%q}}}`, text)))
	}}
}

// revisionStep is what a user may do to the revisions of a StatefulSet or DaemonSet.
func revisionStep(r *rand.Rand, owners, owner string) step {
	at := r.IntN(3)
	change := func(text string, do func(ctx context.Context, s *subject, all []appsv1.ControllerRevision, at int) error) step {
		return touched(owners, owner, fmt.Sprintf("revision %d of %s: %s", at, owner, text), func(ctx context.Context, s *subject) error {
			all, err := s.revisions(ctx)
			if err != nil || len(all) == 0 {
				return err
			}
			return do(ctx, s, all, min(at, len(all)-1))
		})
	}
	patch := func(text string) step {
		return change(text, func(ctx context.Context, s *subject, all []appsv1.ControllerRevision, at int) error {
			return s.patch(ctx, "controllerrevisions", all[at].Name, text)
		})
	}
	n := r.IntN(9)
	if owners == "daemonsets" && n == 7 {
		n = 8 // upstream labels all pods for the copy; see the README, "a revision that is there twice"
	}
	switch n {
	case 0:
		return change("delete", func(ctx context.Context, s *subject, all []appsv1.ControllerRevision, at int) error {
			return s.delete(ctx, "controllerrevisions", all[at].Name, "")
		})
	case 1:
		return patch(fmt.Sprintf(`{"revision":%d}`, r.IntN(9)))
	case 2:
		return patch(`{"metadata":{"labels":{"app":"mine"}}}`)
	case 3:
		return patch(`{"metadata":{"ownerReferences":null}}`)
	case 4:
		return patch(`{"metadata":{"annotations":{"note":"1"},"labels":{"note":"1","controller.kubernetes.io/hash":null}}}`)
	case 5, 6:
		// Not the last one: upstream forgets the collision if it has no current revision; see the README, "the number of current
		// pods in the status".
		return change("replace the first of several by another of its name", func(ctx context.Context, s *subject, all []appsv1.ControllerRevision, _ int) error {
			if len(all) < 2 {
				return nil
			}
			if err := s.delete(ctx, "controllerrevisions", all[0].Name, ""); err != nil {
				return err
			}
			return s.create(ctx, "controllerrevisions", userRevision(all[0].Name, 1, nil, `{"spec":{"replicas":1}}`))
		})
	case 7:
		return change("copy it", func(ctx context.Context, s *subject, all []appsv1.ControllerRevision, at int) error {
			return s.create(ctx, "controllerrevisions", userRevision("copied", all[at].Revision+1, all[at].Labels, string(all[at].Data.Raw)))
		})
	default:
		// Of an image that no template has: with defaults set, Orrery would take it for that template; see the README, "the revisions
		// of StatefulSets and DaemonSets are compared by meaning".
		data := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"` + owner + `"}},"spec":{"containers":[{"name":"main","image":"fake:9"}]}}}}`
		number := int64(r.IntN(9))
		return change("create one beside it", func(ctx context.Context, s *subject, _ []appsv1.ControllerRevision, _ int) error {
			return s.create(ctx, "controllerrevisions", userRevision("mine", number, map[string]string{"app": owner}, data))
		})
	}
}

func userRevision(name string, number int64, labels map[string]string, data string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Revision: number, Data: runtime.RawExtension{Raw: []byte(data)}}
}

// revisions returns the revisions in the namespace by number and name.
func (s *subject) revisions(ctx context.Context) ([]appsv1.ControllerRevision, error) {
	list, err := s.client.AppsV1().ControllerRevisions(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int {
		if a.Revision != b.Revision {
			return int(a.Revision - b.Revision)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list.Items, nil
}
