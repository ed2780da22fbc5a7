package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"orrery/hack/localcluster/cluster"
)

// raised are the client limits at which upstream is not held up by its own throttle.
var raised = []string{"--kube-api-qps=5000", "--kube-api-burst=10000"}

// allPhases are all that can be measured, in order. The last one is of no manager.
const allPhases = "create,roll,zero,up,delete,job,job-delete,sts-create,sts-roll,sts-zero,sts-delete,ds-create,ds-roll,ds-delete,pending,many,idle,raw"

type settings struct {
	orrery   string
	sizes    []size
	jobs     size
	sets     size
	daemons  size
	phases   []string
	throttle string
	nodes    int
	pending  int
	rounds   int
	same     bool
	managers []cluster.ManagerKind
	profiles string
	out      string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Name: "bench", Nodes: s.nodes, OrreryBin: s.orrery, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { _ = c.Stop() }()
	var results []result
	for round := range s.rounds {
		order := slices.Clone(s.managers)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, kind := range order {
			got, err := measure(ctx, c, s, kind, round)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			results = append(results, got...)
		}
	}
	if slices.Contains(s.phases, "raw") {
		if err := raw(ctx, os.Stdout, c, s); err != nil {
			return err
		}
	}
	report(os.Stdout, results)
	if s.out == "" {
		return nil
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.out, append(data, '\n'), 0o644)
}

func parse(args []string) (settings, error) {
	var s settings
	var sizes, phases, jobs, sets, daemons, managers string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&s.orrery, "orrery", "../../bin/orrery", "the binary to measure")
	fs.StringVar(&sizes, "sizes", "10x50,20x50,80x50", "Deployments x replicas, each Deployment with a Service, all in one namespace")
	fs.StringVar(&jobs, "jobs", "20x200", "Jobs x completions")
	fs.StringVar(&sets, "sets", "10x50", "StatefulSets x replicas")
	fs.StringVar(&daemons, "daemons", "5x100", "DaemonSets x nodes; what the other phases have fewer of is added for these")
	fs.StringVar(&phases, "phases", allPhases, "what to measure")
	fs.StringVar(&s.throttle, "upstream", "raised", "upstream's client limits: raised (--kube-api-qps=5000) or default")
	fs.IntVar(&s.nodes, "nodes", 10, "fake nodes")
	fs.IntVar(&s.pending, "pending", 3000, "pods of the ReplicaSet that nothing schedules")
	fs.IntVar(&s.rounds, "rounds", 1, "repetitions; the order of the two alternates")
	fs.BoolVar(&s.same, "same-controllers", false, "run upstream with only the controllers that Orrery has")
	fs.StringVar(&managers, "managers", "upstream,orrery", "what to measure; one of them alone is for profiles")
	fs.StringVar(&s.profiles, "profiles", "", "folder for CPU profiles of both managers, of the first seconds of each phase; taking them costs CPU too")
	fs.StringVar(&s.out, "out", "", "file for the results as JSON")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	if s.throttle != "raised" && s.throttle != "default" {
		return s, fmt.Errorf("-upstream must be raised or default, got %q", s.throttle)
	}
	for text := range strings.SplitSeq(sizes, ",") {
		one, err := sizeOf("sizes", text)
		if err != nil {
			return s, err
		}
		s.sizes = append(s.sizes, one)
	}
	for _, f := range []struct {
		name, text string
		to         *size
	}{{"jobs", jobs, &s.jobs}, {"sets", sets, &s.sets}, {"daemons", daemons, &s.daemons}} {
		var err error
		if *f.to, err = sizeOf(f.name, f.text); err != nil {
			return s, err
		}
	}
	if s.daemons.each < s.nodes {
		return s, fmt.Errorf("-daemons must be on all nodes, of which there are %d, got %s", s.nodes, s.daemons)
	}
	for name := range strings.SplitSeq(managers, ",") {
		kind := cluster.ManagerKind(name)
		if kind != cluster.Upstream && kind != cluster.Orrery {
			return s, fmt.Errorf("-managers must be upstream, orrery or both, got %q", managers)
		}
		s.managers = append(s.managers, kind)
	}
	s.phases = strings.Split(phases, ",")
	for _, name := range s.phases {
		if !slices.Contains(strings.Split(allPhases, ","), name) {
			return s, fmt.Errorf("-phases must be some of %s; got %q", allPhases, name)
		}
	}
	path, err := filepath.Abs(s.orrery)
	s.orrery = path
	return s, err
}

func sizeOf(flag, text string) (one size, err error) {
	if _, err := fmt.Sscanf(text, "%dx%d", &one.count, &one.each); err != nil || one.count < 1 || one.each < 1 {
		return one, fmt.Errorf("-%s must be like 20x50; got %q", flag, text)
	}
	return one, nil
}
