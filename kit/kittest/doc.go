// Package kittest is a Kubernetes API in memory for unit tests of controllers.
//
// It is a transport: the real client, cache and informers run over it unchanged, without a network, so that a whole
// controller runs inside a testing/synctest bubble and an hour of its life costs nothing.
//
//	synctest.Test(t, func(t *testing.T) {
//		api := kittest.New(t, deployment)          // objects that exist already
//		api.Run(t, Descriptor())                   // the controller, its cache and its role
//		api.Settle()                               // until nothing happens any more
//		api.Expect(t, "create apps/v1/replicasets default/web-bcdfg")
//	})
//
// It keeps the rules of the real API that controllers depend on: one resourceVersion counter, conflicts, generateName,
// generation, the status subresource, finalizers, graceful deletion of pods, propagation policies, preconditions,
// namespaces that are going away, list and field selectors, watches with bookmarks, and patches of all kinds. It does
// no validation, and no defaulting beyond what a controller cannot do without.
//
// A controller is held to the RBAC rules that it declares: a call beyond them is answered 403 and fails the test.
// So does a panic that the kit caught, and an object of the shared cache that was changed in place.
// Faults are injected with React, DelayWatch, FreezeWatch, BreakWatch and Compact.
package kittest
