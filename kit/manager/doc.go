// Package manager starts and stops everything that a process of controllers consists of, in one order.
//
// New checks the options and binds the ports, so that whatever is wrong is said before anything runs. It holds the access
// to the cluster: scheme, mapper, cache, clients, recorders. What is added runs in one of two groups, with the lease or
// without.
//
//	m, err := manager.New(config, manager.Options{Name: "labeler", ...})
//	err = m.AddDescriptor(labeler.Descriptor())
//	err = m.Start(ctx)
//
// Start goes through these stages, each when the one before is ready:
//
//	servers        metrics, health, webhooks, and what AddServer was given
//	conditions     the API server answers, and what Before was given
//	caches         the informers that are known by then are filled
//	without lease  runnables and controllers that need none
//	election       until this process holds the lease
//	with lease     all others, each when what it reads of the cache is known to be as new as the lease
//
// NewLease makes a further lease, which is a part of the last stage, with parts of its own.
//
// When its context ends, or with the first error of anything that runs, the stages end in the opposite order, within the
// shutdown timeout, and the lease is given back between the last two: when what it protects has stopped, or may not
// write any more. Start returns the first error, and names what did not stop. A process that loses its lease ends at once.
package manager
