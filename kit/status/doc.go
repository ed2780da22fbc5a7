// Package status shows what the controllers of a process are doing: as a web page, as JSON, and as plain text.
//
// Every ten seconds a Page samples the counters of every loop, and the requests to the API server, into ring buffers that
// hold the last 15 minutes. This costs a reconcile nothing: the loops keep their counters anyway, and the results are
// formatted on request only.
//
//	page := status.New(status.Config{Component: "labeler", Controllers: m.Controllers, ...})
//	m.AddServer(manager.Func("status sampler", page.Run))
//	mux.Handle("/debug/controllers", page)
//	mux.Handle("/debug/controllers/", page)
//
// The page is one document without scripts or other resources. Put it behind authentication and authorization: it shows keys
// and errors of all namespaces.
package status
