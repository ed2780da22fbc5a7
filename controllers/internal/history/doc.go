// Package history keeps the ControllerRevisions in which StatefulSets and DaemonSets remember their pod templates.
//
// A revision is written once and then only renumbered, adopted, released or deleted: its data never changes. Its name
// and its data have a form that other implementations have to find again (see Format and Encode), so that either can
// take over from the other without making a revision or replacing a pod.
//
// Revisions are compared by meaning (see Comparer): an older version of the API wrote fields that a newer one leaves
// out, spelled quantities otherwise, or did not know a field that has a default today. A template that says the same is
// the same revision.
//
// Three layers: pure functions of templates and revisions (Encode, Template, Sort, Next, Format.New, Format.Surplus);
// Comparer, which remembers the costly comparisons; and Keeper, which reads the cache and writes to the server.
//
// The rule it must never break: what restores the owner's present template is found again, however old its writer is;
// a second revision of the same meaning would replace every pod of the owner.
package history
