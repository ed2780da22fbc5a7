// Package slim drops from cached objects what no controller reads. A kind that is slimmed here is never updated whole,
// only patched; the kit refuses an update of it.
package slim
