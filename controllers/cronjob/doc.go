// Package cronjob starts Jobs on the schedules of CronJobs.
//
// Owns: the Jobs of a CronJob. Watches: CronJobs, Jobs, the clock. Writes: creates and deletes Jobs; the status of CronJobs.
//
// A slot is a time at which a schedule fires. Only the latest slot that is due and not handled yet is run; earlier missed
// ones are skipped. The name of a Job is derived from its slot, so that the server rejects a second Job for the same slot.
// Finished Jobs beyond the history limits are deleted.
//
// The rule it must never break: no slot is run twice. The slot of a Job is recorded in the status of the CronJob before
// the Job is deleted. Slots that a killed process did not record are recovered from their Jobs.
package cronjob
