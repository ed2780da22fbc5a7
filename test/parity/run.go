package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"orrery/hack/localcluster/cluster"
)

const nodes = 6

// run plays the programs on both clusters and returns how many of them ended differently.
func run(ctx context.Context, s settings) (differences int, err error) {
	programs, err := draw(s.seed, s.programs, s.only)
	if err != nil {
		return 0, err
	}
	if s.index >= len(programs) {
		return 0, fmt.Errorf("-index=%d: there are %d programs", s.index, len(programs))
	}
	if s.index >= 0 {
		programs = programs[s.index : s.index+1]
	}
	say("seed %d, %d programs", s.seed, len(programs))
	names, err := controllers(ctx, s.orrery)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	var ends sync.WaitGroup
	defer ends.Wait()
	defer stop()
	var worlds [2]*world
	for i, kind := range []cluster.ManagerKind{cluster.Upstream, cluster.Orrery} {
		w, end, err := build(ctx, s, kind, names)
		if err != nil {
			return 0, fmt.Errorf("cluster with %s: %w", kind, err)
		}
		defer func() { err = errors.Join(err, end()) }()
		worlds[i] = w
		ends.Go(func() { w.kubelet(ctx) })
	}
	return play(ctx, s, worlds, programs), nil
}

// build starts a cluster and its manager, with the controllers that Orrery has.
func build(ctx context.Context, s settings, kind cluster.ManagerKind, names []string) (*world, func() error, error) {
	args := []string{
		"--controllers=" + strings.Join(names, ","), "--kube-api-qps=5000", "--kube-api-burst=10000", "-v=2",
		// The nodes' heartbeats come from this busy process.
		"--node-monitor-grace-period=" + s.grace.String(),
	}
	if s.finished > 0 {
		args = append(args, fmt.Sprintf("--terminated-pod-gc-threshold=%d", s.finished))
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Name: string(kind), Nodes: nodes, NoKwok: true, OrreryBin: s.orrery, ControllerManager: kind,
		CMArgs: args,
	})
	if err != nil {
		return nil, nil, err
	}
	end := func() error {
		var err error
		if s.keep != "" {
			to := filepath.Join(s.keep, string(kind))
			err = errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(c.Dir(), "logs"))))
		}
		return errors.Join(err, c.Stop())
	}
	w, err := newWorld(ctx, string(kind), c.RESTConfig())
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	w.grace = s.grace
	return w, end, nil
}

// controllers returns the names of the controllers that the daemon has and that are on by default.
func controllers(ctx context.Context, orrery string) ([]string, error) {
	out, err := exec.CommandContext(ctx, orrery, "controllers", "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("list the controllers of %s: %w", orrery, err)
	}
	var all []struct {
		Name, Default string
		Built         bool
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("controllers of %s: %w", orrery, err)
	}
	var names []string
	for _, c := range all {
		if c.Built && c.Default == "on" {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// play runs the programs, several at once, and returns how many ended differently.
func play(ctx context.Context, s settings, worlds [2]*world, programs []program) int {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex // guards what is printed, and bad
		bad   int
		slots = make(chan struct{}, s.parallel)
	)
	for _, p := range programs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			report := newMatch(s, worlds, p).play(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil:
			case report == "":
				say("%s: equal", p.name)
			default:
				bad++
				say("%s (seed %d): DIFFERENT\n%s", p.name, s.seed, report)
			}
		})
	}
	all.Wait()
	say("%d of %d programs ended differently", bad, len(programs))
	return bad
}
