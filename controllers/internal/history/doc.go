// Package history manages the ControllerRevisions that record the pod templates of StatefulSets and DaemonSets.
//
// A revision is written once and then only renumbered, adopted, released or deleted: its data never changes. Its name
// and its data have the same form as upstream's (see Format and Encode), so that either implementation can take over from
// the other without creating a revision or replacing a pod.
//
// Revisions are compared by meaning (see Comparer): an older version of the API may have written fields that a newer one
// omits, formatted quantities differently, or lacked a field that now has a default. Equivalent templates are the same
// revision.
//
// There are three layers: pure functions of templates and revisions (Encode, Template, Sort, Next, Format.New,
// Format.Surplus); Comparer, which caches the expensive comparisons; and Keeper, which reads the cache and writes to the
// server.
//
// The rule it must never break: the revision that restores the owner's current template is found, however old it is. A
// second revision with the same meaning would replace every pod of the owner.
package history
