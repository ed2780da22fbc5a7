// Package health holds the health checks of a process and serves them as /healthz, /livez and /readyz.
//
// There are two kinds. A Process check (ping, the watchdog of the leader election) fails when only a restart of the
// process can help. A Component check is about one part of the process, such as a controller: a restart would not fix it,
// and would take down all the others. A liveness probe usually points at /healthz, so the endpoints differ in which checks
// decide the answer:
//
//	/livez             Process checks only; nothing else is listed
//	/healthz           Process checks decide; a failing Component check is listed as
//	                   "[!]name degraded" and the status is still 200
//	/readyz            all checks decide
//	/healthz/<check>   that check alone, with its error; likewise for livez and readyz
//
// ?verbose lists the checks, ?exclude=name leaves one out. The three roots are usually open to everyone and therefore
// withhold the errors. A Component check that panics counts as failed, and so does one that hangs for a second: neither
// can make a probe time out.
package health
