package options

import "github.com/spf13/pflag"

// Debugging says what /debug/pprof serves.
type Debugging struct {
	// Profiling serves /debug/pprof.
	Profiling bool
	// ContentionProfiling enables the block profile, if Profiling is on.
	ContentionProfiling bool
}

// AddFlags registers the flags of the section "Debugging".
func (o *Debugging) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling,
		"Serve profiles under /debug/pprof/.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling,
		"Record where goroutines block, if --profiling is on.")
}
