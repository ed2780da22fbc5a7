package serving

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// file is something read from files that may change.
type file interface {
	load() (changed bool, err error)
	label() string
}

// reloader reads files again now and then. Looking costs a few reads and needs no
// notification from the kernel, which misses changes on some mounts.
type reloader struct {
	interval time.Duration
	files    []file
	changed  func()

	// reported holds the error each file was last reported with, so that a lasting one is logged once.
	reported map[file]string
}

func watchFiles[F file](r *reloader, files ...F) {
	for _, f := range files {
		r.files = append(r.files, f)
	}
}

// once reads everything again.
func (r *reloader) once(context.Context) {
	changed := false
	for _, f := range r.files {
		updated, err := f.load()
		r.report(f, updated, err)
		changed = changed || updated
	}
	if changed {
		r.changed()
	}
}

func (r *reloader) report(f file, updated bool, err error) {
	if r.reported == nil {
		r.reported = map[file]string{}
	}
	switch {
	case err == nil:
		delete(r.reported, f)
		if updated {
			klog.InfoS("Loaded again because it changed", "what", f.label())
		}
	case r.reported[f] != err.Error():
		r.reported[f] = err.Error()
		klog.ErrorS(err, "Not loaded again; the last content stays in use", "what", f.label())
	}
}
