// Package slim drops fields that no controller reads from cached objects. An object that is slimmed here must only be
// patched and never updated as a whole; the kit rejects such an update.
package slim
