package daemonset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/history"
	"orrery/kit"
	"orrery/kit/client"
)

// identify finds or creates the revision of the current template. ok is false, without an error, if its name is taken by
// another revision: the collision count in the status has then changed, which requeues the DaemonSet and changes the name.
func (r *reconciler) identify(ctx context.Context, p *pass, revisions []*appsv1.ControllerRevision) (ok bool, err error) {
	for i := range revisions {
		if revisions[i], err = r.withHash(ctx, revisions[i]); err != nil {
			return false, err
		}
	}
	want := history.WantWhole(p.set, &p.set.Spec.Template)
	current, err := r.history.Find(want, revisions)
	if err != nil {
		return false, fmt.Errorf("compare revisions of %s: %w", klog.KObj(p.set), err)
	}
	p.current.generation = generationOf(p.set)
	if current == nil {
		p.old = revisions
		return r.createRevision(ctx, p, want)
	}
	p.current.hash = current.Labels[hashLabel]
	for _, other := range revisions {
		switch {
		case other.UID == current.UID:
			continue
		case bytes.Equal(other.Data.Raw, current.Data.Raw):
			if err := r.merge(ctx, p, current, other); err != nil {
				return false, err
			}
			continue
		}
		same, err := r.history.Same(want, other)
		if err != nil {
			return false, fmt.Errorf("compare revision %s: %w", klog.KObj(other), err)
		}
		if same {
			p.current.equivalent = append(p.current.equivalent, other.Labels[hashLabel])
		}
		p.old = append(p.old, other)
	}
	// After a rollback the earlier template's revision becomes the latest.
	if next := history.Next(p.old); current.Revision < next {
		if _, err := r.history.Renumber(ctx, current, next); err != nil {
			return false, err
		}
	}
	return true, nil
}

// withHash returns a revision that has the hash label. If it was made before there were hashes, it is labelled with its
// name.
func (r *reconciler) withHash(ctx context.Context, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if _, ok := revision.Labels[hashLabel]; ok {
		return revision, nil
	}
	patch, err := labelPatch(revision.Name)
	if err != nil {
		return nil, err
	}
	stored, err := client.PatchObject(ctx, r.client, revision, patch)
	if err != nil {
		return nil, fmt.Errorf("label revision %s: %w", klog.KObj(revision), err)
	}
	return stored, nil
}

func labelPatch(hash string) (client.Patch, error) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{hashLabel: hash}}})
	if err != nil {
		return client.Patch{}, fmt.Errorf("encode a label: %w", err)
	}
	return client.MergePatch(data), nil
}

// createRevision creates the revision of the current template; ok is as for identify.
func (r *reconciler) createRevision(ctx context.Context, p *pass, want *history.Wanted) (ok bool, err error) {
	data, err := want.Data()
	if err != nil {
		return false, err
	}
	revision := r.history.New(p.set, &p.set.Spec.Template, data, history.Next(p.old), p.set.Status.CollisionCount)
	stored, taken, err := r.history.Create(ctx, want, revision)
	if err != nil {
		return false, err
	}
	if taken {
		return false, r.collide(ctx, p.set, revision.Name)
	}
	if p.current.hash, ok = stored.Labels[hashLabel]; !ok {
		p.current.hash = stored.Name
	}
	return true, nil
}

// collide increments the collision count because the name of a revision is taken. It reads the live object first: if the
// count there is higher than in the cache, the next reconcile uses a different name already.
func (r *reconciler) collide(ctx context.Context, set *appsv1.DaemonSet, name string) error {
	now, err := client.Get[appsv1.DaemonSet](ctx, r.live, kit.KeyOf(set))
	if err != nil {
		return fmt.Errorf("read %s after a name collision of revision %s: %w", klog.KObj(set), name, err)
	}
	if now.UID != set.UID {
		return nil
	}
	known, counted := set.Status.CollisionCount, now.Status.CollisionCount
	if (known == nil) != (counted == nil) || known != nil && *known != *counted {
		return fmt.Errorf("name the revision of %s: the collision count in the cache is out of date", klog.KObj(set))
	}
	collisions := int32(1)
	if counted != nil {
		collisions += *counted
	}
	now.Status.CollisionCount = &collisions
	if _, err := client.UpdateStatus(ctx, r.client, now, client.Brief); err != nil {
		return fmt.Errorf("count a collision of %s: %w", klog.KObj(set), err)
	}
	klog.FromContext(ctx).V(2).Info("The name of a revision is taken; trying another", "daemonSet", klog.KObj(set), "revision", name, "collisions", collisions)
	return nil
}

// merge replaces one revision by another with the same data: its pods are relabelled, and it is deleted.
func (r *reconciler) merge(ctx context.Context, p *pass, keep, other *appsv1.ControllerRevision) error {
	patch, err := labelPatch(keep.Labels[hashLabel])
	if err != nil {
		return err
	}
	for i, pod := range p.pods {
		if hash := other.Labels[hashLabel]; pod.Labels[hashLabel] != hash || hash == keep.Labels[hashLabel] {
			continue
		}
		if p.pods[i], err = client.PatchObject(ctx, r.client, pod, patch); err != nil {
			return fmt.Errorf("label pod %s: %w", klog.KObj(pod), err)
		}
	}
	if err := client.Delete(ctx, r.client, other, client.IfUID(other.UID)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete revision %s, a duplicate of %s: %w", klog.KObj(other), keep.Name, err)
	}
	return nil
}

// truncate deletes the oldest revisions beyond the history limit, except those that still have pods.
func (r *reconciler) truncate(ctx context.Context, p *pass) error {
	limit := p.set.Spec.RevisionHistoryLimit
	if limit == nil || len(p.old) <= int(*limit) {
		return nil
	}
	return r.history.Truncate(ctx, p.old, *limit, func(revision *appsv1.ControllerRevision) bool {
		hash := revision.Labels[hashLabel]
		return hash != "" && slices.ContainsFunc(p.pods, func(pod *corev1.Pod) bool { return pod.Labels[hashLabel] == hash })
	})
}
