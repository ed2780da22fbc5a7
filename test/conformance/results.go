package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// States of a spec.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
)

// result is what came out with one manager, as it is written to a file.
type result struct {
	// Manager is "upstream" or "orrery", numbered from the second round on.
	Manager string `json:"manager"`
	// Kubernetes is the release of the suite and the cluster.
	Kubernetes string `json:"kubernetes"`
	// Started is when the first spec was started, Seconds how long all took.
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Specs   []outcome `json:"specs"`
}

// outcome is what became of one spec.
type outcome struct {
	Name   string   `json:"name"`
	Labels []string `json:"labels,omitempty"`
	// State is passed, failed or skipped; skipped is what the suite itself skips on this cluster.
	State string `json:"state"`
	// Attempts is the number of the attempt that State is of.
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"`
	// Message and Where tell of the last failure, also when a later attempt passed.
	Message string `json:"message,omitempty"`
	Where   string `json:"where,omitempty"`
}

// flaky reports whether a spec passed, but not at once.
func (o outcome) flaky() bool { return o.State == passed && o.Attempts > 1 }

// add takes the outcomes of one attempt. A spec of which nothing was heard has failed.
func (r *result) add(specs []spec, got []ginkgoSpec, attempt int) {
	byName := map[string]ginkgoSpec{}
	for _, g := range got {
		byName[g.name()] = g
	}
	for _, s := range specs {
		o := outcome{Name: s.name, Labels: s.labels, State: failed, Attempts: attempt, Message: "did not run"}
		if g, ran := byName[s.name]; ran {
			o.Seconds, o.Message, o.State = float64(g.RunTime)/1e9, g.Failure.Message, failed
			switch g.State {
			case passed, skipped:
				o.State = g.State
			}
			if g.Failure.Location.FileName != "" {
				o.Where = fmt.Sprintf("%s:%d", g.Failure.Location.FileName, g.Failure.Location.LineNumber)
			}
		}
		i := slices.IndexFunc(r.Specs, func(old outcome) bool { return old.Name == s.name })
		if i < 0 {
			r.Specs = append(r.Specs, o)
			continue
		}
		if o.State == passed {
			o.Message, o.Where = r.Specs[i].Message, r.Specs[i].Where
		}
		r.Specs[i] = o
	}
}

// failed returns the specs among these that have failed so far.
func (r *result) failed(specs []spec) []spec {
	var again []spec
	for _, s := range specs {
		if o, ok := r.of(s.name); ok && o.State == failed {
			again = append(again, s)
		}
	}
	return again
}

// of returns the outcome of a spec; a nil result has none.
func (r *result) of(name string) (outcome, bool) {
	if r == nil {
		return outcome{}, false
	}
	i := slices.IndexFunc(r.Specs, func(o outcome) bool { return o.Name == name })
	if i < 0 {
		return outcome{}, false
	}
	return r.Specs[i], true
}

func (r *result) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
