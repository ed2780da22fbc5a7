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

// identify finds the revision of the present template, or makes it. ok is false, without an error, if its name was taken
// by another one: the status, which counts that, brings the DaemonSet back under another name.
func (r *reconciler) identify(ctx context.Context, p *pass, revisions []*appsv1.ControllerRevision) (ok bool, err error) {
	for i := range revisions {
		if revisions[i], err = r.labelled(ctx, revisions[i]); err != nil {
			return false, err
		}
	}
	want := history.WantWhole(p.set, &p.set.Spec.Template)
	current, err := r.history.Find(want, revisions)
	if err != nil {
		return false, fmt.Errorf("compare revisions of %s: %w", klog.KObj(p.set), err)
	}
	p.present.generation = generationOf(p.set)
	if current == nil {
		p.old = revisions
		return r.make(ctx, p, want)
	}
	p.present.hash = current.Labels[hashLabel]
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
			p.present.alike = append(p.present.alike, other.Labels[hashLabel])
		}
		p.old = append(p.old, other)
	}
	// Whoever goes back to an earlier template has it as the latest revision.
	if next := history.Next(p.old); current.Revision < next {
		if _, err := r.history.Renumber(ctx, current, next); err != nil {
			return false, err
		}
	}
	return true, nil
}

// labelled returns a revision with a hash, which is its name if it was made before there were hashes.
func (r *reconciler) labelled(ctx context.Context, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
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

// make stores a revision of the present template.
func (r *reconciler) make(ctx context.Context, p *pass, want *history.Wanted) (ok bool, err error) {
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
	if p.present.hash, ok = stored.Labels[hashLabel]; !ok {
		p.present.hash = stored.Name
	}
	return true, nil
}

// collide counts that the name of a revision is taken. The live object is asked first: a count that the cache does not
// show yet makes another name already.
func (r *reconciler) collide(ctx context.Context, set *appsv1.DaemonSet, name string) error {
	now, err := client.Get[appsv1.DaemonSet](ctx, r.live, kit.KeyOf(set))
	if err != nil {
		return fmt.Errorf("read %s, whose revision %s has a taken name: %w", klog.KObj(set), name, err)
	}
	if now.UID != set.UID {
		return nil
	}
	known, counted := set.Status.CollisionCount, now.Status.CollisionCount
	if (known == nil) != (counted == nil) || known != nil && *known != *counted {
		return fmt.Errorf("name the revision of %s: the cache shows an earlier count of collisions", klog.KObj(set))
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

// merge lets one revision stand for another with the same data: the pods of the other become its own.
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
		return fmt.Errorf("delete revision %s, which repeats %s: %w", klog.KObj(other), keep.Name, err)
	}
	return nil
}

// truncate deletes the oldest revisions beyond the limit that no pod was made from.
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
