package statefulset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/history"
	"orrery/kit"
	"orrery/kit/client"
)

// changesAtOnce bounds the concurrent deletions of pods, and changes of claims, of one parallel set.
const changesAtOnce = 64

// outcome is what came of a plan.
type outcome struct {
	created int      // number of missing pods
	updated []member // outdated pods that were deleted
}

// apply carries a plan out, step by step. An ordered set stops at the first failure, but for tasks that are stuck: these
// concern one pod, which is otherwise as it should be. A parallel set takes every step: what is refused for one pod must not
// hold up the others, and what is to go may hold the quota that others wait for.
func (r *reconciler) apply(ctx context.Context, s *state, p plan) (done outcome, err error) {
	if _, err := r.remove(ctx, s, p.recreate, "update"); err != nil {
		return done, err
	}
	old, err := s.oldTemplate(p)
	if err != nil {
		return done, err
	}
	var hanging error
	for _, tasks := range p.byKind() {
		created, e := r.performAll(ctx, s, tasks, old)
		done.created += created
		if tasks[0].stuck {
			hanging = e
			continue
		}
		if err = errors.Join(err, e); err != nil && s.ordered() {
			return done, err
		}
	}
	if err = errors.Join(err, r.scaleDown(ctx, s, p)); err == nil || !s.ordered() {
		var e error
		done.updated, e = r.remove(ctx, s, p.update, "update")
		err = errors.Join(err, e)
	}
	return done, errors.Join(err, hanging)
}

// byKind returns the tasks of each kind that there are any of.
func (p plan) byKind() (groups [][]task) {
	rest := p.tasks
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[n].kind() == rest[0].kind() {
			n++
		}
		groups, rest = append(groups, rest[:n]), rest[n:]
	}
	return groups
}

// performAll performs tasks of one kind, and returns the number of missing pods created.
func (r *reconciler) performAll(ctx context.Context, s *state, tasks []task, old *corev1.PodTemplateSpec) (created int, err error) {
	var count atomic.Int32
	err = s.each(ctx, len(tasks), func(ctx context.Context, i int) error {
		err := r.perform(ctx, s, tasks[i], old)
		if err == nil && tasks[i].kind() == missing {
			count.Add(1)
		}
		return err
	})
	return int(count.Load()), err
}

// scaleDown deletes the pods whose ordinals are not the set's any more, each once its claims have the owners that the policy
// asks for.
func (r *reconciler) scaleDown(ctx context.Context, s *state, p plan) error {
	given := make([]bool, len(p.handOver))
	err := s.all(ctx, len(p.handOver), func(ctx context.Context, i int) error {
		err := r.reown(ctx, s, p.handOver[i].claims)
		given[i] = err == nil
		return err
	})
	if err != nil && s.ordered() {
		return err
	}
	held := map[int]bool{}
	for i, t := range p.handOver {
		held[t.ordinal] = !given[i]
	}
	condemned := slices.DeleteFunc(slices.Clone(p.condemn), func(m member) bool { return held[m.ordinal] })
	_, e := r.remove(ctx, s, condemned, "scale down")
	return errors.Join(err, e)
}

// each calls f for 0 to n-1 and returns the first error: for an ordered set one after the other, for a parallel one in
// batches that double, so that an error that concerns every pod does not cost a call for each.
func (s *state) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if !s.ordered() {
		_, err := kit.SlowStart(ctx, n, f)
		return err
	}
	return inOrder(ctx, n, f)
}

// all is each for calls that fail for reasons of their own: those of a parallel set are all made.
func (s *state) all(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if !s.ordered() {
		return kit.BatchFirst(ctx, n, changesAtOnce, f)
	}
	return inOrder(ctx, n, f)
}

// inOrder calls f for 0 to n-1 up to the first error.
func inOrder(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	for i := range n {
		if err := f(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// oldTemplate returns the template of the current revision if a pod is to be made from it, and nil otherwise.
func (s *state) oldTemplate(p plan) (*corev1.PodTemplateSpec, error) {
	if s.current.Name == s.update.Name {
		return nil, nil
	}
	for _, t := range p.tasks {
		if t.pod == nil && s.staysBehind(t.ordinal) {
			return history.Template(s.current, &s.set.Spec.Template)
		}
	}
	return nil, nil
}

// perform does what is due for one ordinal.
func (r *reconciler) perform(ctx context.Context, s *state, t task, old *corev1.PodTemplateSpec) error {
	switch {
	case t.pod == nil:
		return r.create(ctx, s, t, old)
	case t.remove:
		return r.delete(ctx, s, t.member, "replacement of a pod that has finished")
	}
	if t.supply {
		if err := r.supply(ctx, s, t); err != nil {
			return err
		}
	}
	if t.repair || t.reown {
		return r.repair(ctx, s, t)
	}
	return nil
}

// create creates the claims that a pod lacks and then the pod.
func (r *reconciler) create(ctx context.Context, s *state, t task, old *corev1.PodTemplateSpec) error {
	name := podName(s.set.Name, t.ordinal)
	err := checkOrdinal(t.ordinal)
	if err == nil {
		err = r.makeClaims(ctx, s, t)
	}
	if err != nil {
		r.events.pod(s.set, creating, name, err)
		return err
	}
	template, revision := &s.set.Spec.Template, s.update
	if s.staysBehind(t.ordinal) {
		revision = s.current
		if old != nil {
			template = old
		}
	}
	_, err = client.Create(ctx, r.client, newPod(s.set, template, revision.Name, t.ordinal), client.Brief)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create pod %s/%s, whose name another pod has: %w", s.set.Namespace, name, err)
	}
	if owning := r.reown(ctx, s, t.claims); owning != nil {
		r.events.pod(s.set, updating, name, owning)
		return errors.Join(err, owning)
	}
	r.events.pod(s.set, creating, name, err)
	if err != nil {
		return fmt.Errorf("create pod %s/%s: %w", s.set.Namespace, name, err)
	}
	klog.FromContext(ctx).V(2).Info("Created pod", "statefulSet", klog.KObj(s.set), "pod", name)
	return nil
}

// remove deletes pods, in their order if the set is ordered, and returns those that it has deleted.
func (r *reconciler) remove(ctx context.Context, s *state, members []member, why string) (gone []member, err error) {
	deleted := make([]bool, len(members))
	err = s.all(ctx, len(members), func(ctx context.Context, i int) error {
		err := r.delete(ctx, s, members[i], why)
		deleted[i] = err == nil
		return err
	})
	for i, m := range members {
		if deleted[i] {
			gone = append(gone, m)
		}
	}
	return gone, err
}

// delete deletes a pod. One that is gone, or that another one has replaced, is as good as deleted.
func (r *reconciler) delete(ctx context.Context, s *state, m member, why string) error {
	klog.FromContext(ctx).V(2).Info("Deleting pod", "statefulSet", klog.KObj(s.set), "pod", klog.KObj(m.pod), "for", why)
	err := client.Delete(ctx, r.client, m.pod, client.IfUID(m.pod.UID))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		r.events.pod(s.set, deleting, m.pod.Name, err)
		return fmt.Errorf("delete pod %s: %w", klog.KObj(m.pod), err)
	}
	r.events.pod(s.set, deleting, m.pod.Name, nil)
	return nil
}
