// Package kittest is a Kubernetes API in memory for unit tests of controllers.
//
// It is an HTTP transport: the real client, cache and informers use it unchanged and without a network. So a whole
// controller runs inside a testing/synctest bubble, where an hour passes in no time.
//
//	synctest.Test(t, func(t *testing.T) {
//		api := kittest.New(t, deployment)          // existing objects
//		api.Run(t, Descriptor())                   // the controller, its cache and its role
//		api.Settle()                               // until nothing more happens
//		api.Expect(t, "create apps/v1/replicasets default/web-bcdfg")
//	})
//
// It implements what controllers depend on in the real API: a single resourceVersion counter, conflicts, generateName,
// generation, the status subresource, finalizers, graceful deletion of pods, propagation policies, preconditions,
// terminating namespaces, label and field selectors, watches with bookmarks, and all kinds of patches. It does no
// validation, and only the defaulting that controllers rely on.
//
// A test fails if a controller makes a call that its declared RBAC rules do not grant (the call is answered with 403), if
// the kit has recovered a panic, or if an object in the shared cache was modified. Faults are injected with InjectFaults, or
// one by one with React, DelayWatch, FreezeWatch, BreakWatch and Compact.
package kittest
