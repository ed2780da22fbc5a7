package merge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/nodepool/record"
)

// Outcome is the desired state of a node, and why it differs from the current one.
type Outcome struct {
	State  record.State
	Record record.Record
	// Changes are the differences to the node, sorted by key.
	Changes []Change
	// Drifted are keys that others have changed and that are set again.
	Drifted []record.Key
	// Conflicts are keys that pools specify and do not get.
	Conflicts []Conflict
	// Noted reports that the record changes although no key does.
	Noted bool
}

// Why is the reason for which a key changes.
type Why int

// The reasons. Only the first is bounded by a rollout.
const (
	Asked   Why = iota // a pool specifies it
	Drift              // somebody has changed what a pool had set
	GivenUp            // no pool specifies it any more
	Started            // the start-up taint of a node that has joined
)

// Change is one key of a node that changes.
type Change struct {
	// Pool specifies the key, or gives it up; empty for the start-up taint.
	Pool types.UID
	Key  record.Key
	// From and To are its values; nil where there is none.
	From, To *string
	Why      Why
}

// String returns the change as a plan shows it. Long values are truncated, since a status holds many changes.
func (c Change) String() string {
	switch {
	case c.To == nil:
		return "remove " + c.Key.String()
	case c.From == nil:
		return fmt.Sprintf("add %s with value %s", c.Key, quoted(*c.To))
	}
	return fmt.Sprintf("change %s from %s to %s", c.Key, quoted(*c.From), quoted(*c.To))
}

// shown is how many bytes of a value a plan shows.
const shown = 128

func quoted(value string) string {
	if len(value) <= shown {
		return strconv.Quote(value)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(value[:shown], ""), len(value))
}

// Evicts reports whether the change evicts pods from the node.
func (c Change) Evicts() bool {
	return c.From == nil && c.To != nil && c.Key.Kind == record.Taint && c.Key.Effect == corev1.TaintEffectNoExecute
}

// ConflictReason says why a pool does not get a key.
type ConflictReason string

// The reasons of conflicts.
const (
	// Foreign keys have a value of somebody else, which the pool leaves alone.
	Foreign ConflictReason = "somebody else has set it"
	// TooLong values of somebody else are not replaced, since the record could not hold them.
	TooLong ConflictReason = "its present value is too long to be remembered"
	// Tie is between pools of the same priority that ask for different values.
	Tie ConflictReason = "another pool of the same priority sets it to another value"
	// Flapping keys are changed by others again and again, and are left alone for a while.
	Flapping ConflictReason = "somebody else changes it again and again"
)

// Conflict is a key that a pool specifies and does not get.
type Conflict struct {
	Pool   types.UID
	Key    record.Key
	Reason ConflictReason
}

// Same reports whether the node is in its desired state, record included.
func (o *Outcome) Same() bool { return len(o.Changes) == 0 && !o.Noted }

// Of returns the changes of one pool.
func (o *Outcome) Of(pool types.UID) []Change {
	return slices.DeleteFunc(slices.Clone(o.Changes), func(c Change) bool { return c.Pool != pool })
}
