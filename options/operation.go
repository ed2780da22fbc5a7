package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"orrery/kit"
)

// Operation configures dry run and panic handling.
type Operation struct {
	// PanicPolicy says what happens to the process when a controller panics.
	PanicPolicy kit.PanicPolicy
	// DryRun makes the API server validate every write and store none.
	DryRun bool
}

// panicPolicies are the values of --panic-policy.
func panicPolicies() []string { return []string{string(kit.IsolatePanics), string(kit.CrashOnPanic)} }

// AddFlags registers the flags.
func (o *Operation) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar((*string)(&o.PanicPolicy), "panic-policy", string(o.PanicPolicy),
		"What to do when a controller panics. isolate: log it with the object and the stack, count it, and continue; the object is retried "+
			"with back-off. crash: log it and exit at once.")
	fs.BoolVar(&o.DryRun, "dry-run", o.DryRun,
		"Have the API server validate every write and store none. A dry run goes beside the active controller manager, under its own lease, "+
			"whose name ends in -dry-run; /debug/controllers and 'orrery status' list what would have been written.")
}

// Validate reports every problem of the settings.
func (o *Operation) Validate() []error {
	if all := panicPolicies(); !slices.Contains(all, string(o.PanicPolicy)) {
		return []error{fmt.Errorf("--panic-policy must be one of %s, got %q", strings.Join(all, ", "), o.PanicPolicy)}
	}
	return nil
}
