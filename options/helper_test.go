package options

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"orrery/kit"
)

// testControllers are a few controllers as a build would have them.
func testControllers() []kit.Descriptor {
	workers := int32(5)
	return []kit.Descriptor{
		{Name: "serviceaccount-token-controller", Aliases: []string{"serviceaccount-token"}},
		{
			Name: "deployment-controller", Aliases: []string{"deployment"}, ServiceAccount: "deployment-controller", Summary: "rolls out",
			AddFlags: func(fs *pflag.FlagSet) {
				fs.Int32Var(&workers, "concurrent-deployment-syncs", workers, "Deployments handled at once.")
			},
			Validate: func() []error {
				if workers < 1 {
					return []error{fmt.Errorf("--concurrent-deployment-syncs must be at least 1, got %d", workers)}
				}
				return nil
			},
		},
		{Name: "replicaset-controller", Aliases: []string{"replicaset"}},
		{Name: "taint-eviction-controller", FeatureGates: []featuregate.Feature{"SeparateTaintEvictionController"}},
		{Name: "podgroup-protection-controller", FeatureGates: []featuregate.Feature{"GenericWorkload"}},
		{Name: "token-cleaner-controller", Aliases: []string{"tokencleaner"}, OffByDefault: true},
		{Name: "nodepool-controller", AddFlags: func(fs *pflag.FlagSet) { fs.Int("nodepools-at-once", 3, "Pools handled at once.") }},
	}
}

// parse returns the settings that a command line gives, and the error that the command would show.
func parse(args ...string) (*CMServer, error) {
	s := NewCMServer()
	s.Controllers = testControllers()
	return s, parseInto(s, args...)
}

func parseInto(s *CMServer, args ...string) error {
	all := pflag.NewFlagSet("orrery", pflag.ContinueOnError)
	all.SetOutput(io.Discard)
	all.Usage = func() {}
	fss := s.Flags()
	for _, name := range fss.Order {
		all.AddFlagSet(fss.FlagSets[name])
	}
	return s.FlagError(all.Parse(args))
}

func mustParse(t *testing.T, args ...string) *CMServer {
	t.Helper()
	s, err := parse(args...)
	if err != nil {
		t.Fatalf("parse %q: %v", args, err)
	}
	return s
}

func validate(s *CMServer) error { return s.Validate(s.KnownControllers(), s.DisabledByDefault()) }

// checkLines compares the lines of a text with what each must contain.
func checkLines(t *testing.T, text string, want [][]string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if text == "" {
		lines = nil
	}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(want), text)
	}
	for i, words := range want {
		for _, word := range words {
			if !strings.Contains(lines[i], word) {
				t.Errorf("line %d %q does not say %q", i+1, lines[i], word)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
