// Package health holds the checks of a process and serves /healthz, /livez and /readyz of them.
//
// There are two kinds. A Process check (ping, the watchdog of the leader election) fails when only a restart of the
// process can help. A Component check is about one part of it, as one controller, which a restart would not mend and
// would take all others down with it. A liveness probe usually points at /healthz, so the pages differ in which checks
// decide:
//
//	/livez             Process checks only; nothing else is listed
//	/healthz           Process checks decide; a failing Component check is listed as
//	                   "[!]name degraded" and the answer is still 200
//	/readyz            all checks decide
//	/healthz/<check>   that check alone, with its error; so for livez and readyz
//
// ?verbose lists the checks, ?exclude=name leaves one out. The three roots are usually open to anyone and therefore
// withhold the errors. A Component check that panics counts as failed, and one that hangs as failed after a second, so
// neither can starve a probe.
package health
