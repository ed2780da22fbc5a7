package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"orrery/hack/localcluster/cluster"
)

// settings are the command line.
type settings struct {
	orrery   string
	out      string
	passing  string
	focus    *regexp.Regexp
	managers []cluster.ManagerKind
	all      bool
	fast     bool
	baseline bool
	procs    int
	nodes    int
	attempts int
	repeat   int
	real     bool
	realTool string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	var s settings
	var focus, managers string
	fs := flag.NewFlagSet("conformance", flag.ContinueOnError)
	fs.StringVar(&s.orrery, "orrery", "../../bin/orrery", "the binary to test")
	fs.StringVar(&s.out, "out", "../../_output/conformance", "folder for results and logs")
	fs.StringVar(&s.passing, "passing", "", "the list of specs that pass with upstream (default passing.txt, or passing-real.txt)")
	fs.BoolVar(&s.real, "real", false, "on one node with real containers, the specs that are for such a node")
	fs.StringVar(&s.realTool, "realnode", "../../bin/realnode", "the program that makes such a node")
	fs.StringVar(&focus, "focus", "", "regular expression: only specs whose names match")
	fs.StringVar(&managers, "managers", "upstream,orrery", "what to run, in this order")
	fs.BoolVar(&s.all, "all", false, "run every spec of the subjects and not only those of the list")
	fs.BoolVar(&s.fast, "fast", false, "only the specs that are fast, Orrery only, held against the list")
	fs.BoolVar(&s.baseline, "baseline", false, "run every spec with upstream and write the list anew")
	fs.IntVar(&s.procs, "procs", 6, "specs that run at the same time")
	fs.IntVar(&s.nodes, "nodes", 4, "fake nodes")
	fs.IntVar(&s.attempts, "attempts", 2, "how often a spec may try")
	fs.IntVar(&s.repeat, "repeat", 1, "how many times Orrery runs the specs, each time on a fresh cluster")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	var errs []error
	var err error
	if s.focus, err = regexp.Compile(focus); err != nil {
		errs = append(errs, fmt.Errorf("-focus: %w", err))
	}
	if s.baseline && (s.fast || focus != "") {
		errs = append(errs, errors.New("-baseline makes the whole list: it goes with neither -fast nor -focus"))
	}
	if s.passing == "" {
		s.passing = map[bool]string{false: "passing.txt", true: "passing-real.txt"}[s.real]
	}
	if s.procs < 1 || s.attempts < 1 || s.repeat < 1 {
		errs = append(errs, errors.New("-procs, -attempts and -repeat must be at least 1"))
	}
	switch {
	case s.baseline:
		managers, s.all = string(cluster.Upstream), true
	case s.fast:
		managers = string(cluster.Orrery)
	}
	for name := range strings.SplitSeq(managers, ",") {
		kind := cluster.ManagerKind(name)
		if kind != cluster.Upstream && kind != cluster.Orrery {
			errs = append(errs, fmt.Errorf("-managers: %q is neither %s nor %s", name, cluster.Upstream, cluster.Orrery))
		}
		s.managers = append(s.managers, kind)
	}
	for _, path := range []*string{&s.orrery, &s.out, &s.passing, &s.realTool} {
		if *path, err = filepath.Abs(*path); err != nil {
			errs = append(errs, err)
		}
	}
	return s, errors.Join(errs...)
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	suite, err := cluster.FindSuite(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return fmt.Errorf("make folder for results: %w", err)
	}
	all, err := listSpecs(ctx, suite, s.out)
	if err != nil {
		return err
	}
	listed, err := readList(s.passing)
	if err != nil && !s.all {
		return err
	}
	selected := choose(all, listed, s)
	if len(selected) == 0 {
		return errors.New("no spec is selected")
	}
	built, err := readControllers(ctx, s.orrery)
	if err != nil {
		return err
	}
	describe(os.Stdout, selected, built)
	return compareManagers(ctx, s, suite, selected, listed, built)
}

// compareManagers runs the specs with every manager that is wanted, and judges.
func compareManagers(ctx context.Context, s settings, suite cluster.Suite, specs []spec, listed map[string]bool, built controllers) error {
	var upstream, orrery *result
	var errs []error
	for _, kind := range s.managers {
		rounds := 1
		if kind == cluster.Orrery {
			rounds = s.repeat
		}
		for round := range rounds {
			got, err := measure(ctx, s, suite, kind, round, specs, built)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			if kind == cluster.Upstream {
				upstream = got
				continue
			}
			orrery = got
			errs = append(errs, report(os.Stdout, specs, upstream, orrery, listed, built))
		}
	}
	if orrery == nil {
		summary(os.Stdout, upstream)
	}
	if s.baseline {
		return writeList(s.passing, upstream)
	}
	return errors.Join(errs...)
}
