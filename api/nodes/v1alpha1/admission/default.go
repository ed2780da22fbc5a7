package admission

import (
	"orrery/api/nodes/v1alpha1"
)

// Default fills in what is not set. It is idempotent and never touches what is set, an empty node selector neither: that
// is refused, and not taken for one that was left out.
func Default(p *v1alpha1.NodePool) {
	s := &p.Spec
	if s.NodeSelector == nil && p.Name != "" {
		s.NodeSelector = p.Selector()
	}
	if s.ExistingKeys == "" {
		s.ExistingKeys = v1alpha1.Adopt
	}
	if s.DeletionPolicy == "" {
		s.DeletionPolicy = v1alpha1.Revert
	}
	if s.Mode == "" {
		s.Mode = v1alpha1.Enforce
	}
	if s.Rollout.NoExecuteMaxUpdating == nil {
		one := int32(1)
		s.Rollout.NoExecuteMaxUpdating = &one
	}
	for i := range s.Taints {
		if s.Taints[i].Propagation == "" {
			s.Taints[i].Propagation = v1alpha1.PropagateAlways
		}
	}
	if s.RuntimeClass != nil && s.RuntimeClass.Name == "" && p.Name != "" {
		s.RuntimeClass.Name = p.RuntimeClassName()
	}
}
