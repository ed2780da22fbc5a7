package statefulset

import (
	"context"

	"orrery/kit"
)

// measure removes creations that exceed the set's allowance from a plan: they are delayed, because the pods before them
// went as fast as they were created. rest says when to create more.
func (r *reconciler) measure(ctx context.Context, s *state, p plan) (kept plan, rest kit.Result) {
	wanted := p.creations()
	if wanted == 0 {
		return p, kit.Done
	}
	granted, wait := r.allowances.Take(ctx, s.set, s.end-s.first, wanted, wanted, s.now)
	if granted == wanted {
		return p, kit.Done
	}
	tasks := p.tasks
	p.tasks = nil
	for _, t := range tasks {
		if t.kind() == missing {
			if granted == 0 {
				continue
			}
			granted--
		}
		p.tasks = append(p.tasks, t)
	}
	return p, kit.After(wait)
}

// creations returns how many pods a plan makes, as far as can be seen.
func (p plan) creations() (n int) {
	for _, t := range p.tasks {
		if t.kind() == missing {
			n++
		}
	}
	return n
}
