// Package manager starts and stops everything that a process of controllers consists of, in one order.
//
// New checks the options and binds the ports, so that mistakes are reported before anything runs. The manager holds the
// access to the cluster: scheme, mapper, cache, clients, recorders. What is added to it runs in one of two groups, with the
// lease or without.
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
//	with lease     all others, each when what it reads of the cache is known to be no older than the lease
//
// NewLease makes an additional lease, which is a part of the last stage and has parts of its own.
//
// When its context ends, or with the first error of anything that runs, the stages end in the opposite order, within the
// shutdown timeout. The lease is released after the last stage: when what it protects has stopped, or may not write any
// more. Start returns the first error, and names what did not stop. A process that loses its lease ends at once.
package manager
