// Package cronjob starts Jobs at the times that CronJobs give.
//
// Owns: the Jobs of a CronJob. Watches: CronJobs, Jobs, the clock. Writes: creates and deletes Jobs; the status of CronJobs.
//
// A slot is a moment at which a schedule fires. The last slot that is due and was not handled is started, earlier ones
// are not made up for. The name of a Job tells its slot, so that the server refuses a second Job for the same one.
// Finished Jobs beyond the history limits are deleted.
//
// The rule it must never break: no slot is run twice. What a Job tells of its slot is stored in the status of the
// CronJob before the Job may be deleted here, and taken from Jobs that a process which was killed did not record.
package cronjob
