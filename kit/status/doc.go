// Package status shows what a process of controllers is doing: as a page for people, as JSON for programs, and as text.
//
// A Page samples the counts of every loop, and the requests to the API server, every ten seconds into buffers of a fixed
// size, which hold the last 15 minutes. Reconciles are not touched by this: the loops count for themselves, and what they
// have done is formatted when someone looks.
//
//	page := status.New(status.Config{Component: "labeler", Controllers: m.Controllers, ...})
//	m.AddServer(manager.Func("status sampler", page.Run))
//	mux.Handle("/debug/controllers", page)
//	mux.Handle("/debug/controllers/", page)
//
// The page is one document without scripts and without anything to load. Put it behind authentication: keys and errors of
// all namespaces are on it.
package status
