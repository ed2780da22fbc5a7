// Package serving is the HTTPS side of the daemon: the listener with its
// certificates, the question who is calling and whether they may, and the pages
// themselves. It knows nothing of controllers; app hands it what to show.
//
// # Pages
//
// A Mux collects handlers, Endpoints installs the usual ones on it, and New makes a
// Server of the two that Run serves until its context ends:
//
//	mux := serving.NewMux()
//	serving.Endpoints{Component: "kube-controller-manager", Health: health, ...}.Install(mux)
//	server, err := serving.New(ctx, serving.Config{Secure: s.Secure, ..., Handler: mux})
//	err = server.Run(ctx)
//
// # Health
//
// The checks and their pages are those of package orrery/kit/health. The three roots are
// open to anyone by default; single checks, which show their errors, are not.
//
// # Who calls, and may they
//
// In this order: a user named in headers by a trusted proxy, a client certificate, a
// bearer token (TokenReview, cached), else system:anonymous. A credential that does
// not hold is answered 401, also on open paths. Then members of system:masters and
// the always-allowed paths pass, and for the rest a SubjectAccessReview decides
// (cached, asked once for requests in flight together): 403 if not allowed, 500 if
// the API server could not be asked. Anonymous callers get no more than the cluster's
// own roles give them, which is the health endpoints.
//
// Certificate and CA files are read again every 20 seconds and the cluster's
// authentication settings are watched. What cannot be loaded is logged, and what was
// loaded last stays in use.
package serving
