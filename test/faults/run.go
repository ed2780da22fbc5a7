package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/faultproxy"
	"orrery/test/faults/checker"
)

const (
	nodes = 5
	// recovery is how long the manager may be waiting for its lease after a fault.
	recovery = 15 * time.Second
	// ending is how long everything may take to settle after the last fault: longer than the backoff of a Job whose pods
	// have failed a few times, and longer than the longest Job.
	ending = 4 * time.Minute
)

// run injects faults for as long as the settings say and returns the number of violations.
func run(ctx context.Context, s settings) (broken int, err error) {
	say("seed %d, for %v, with %s", s.seed, s.duration, s.kind)
	has, err := controllers(ctx, s)
	if err != nil {
		return 0, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Name: "faults", Nodes: nodes, Untaint: true, OrreryBin: s.orrery})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, keepLogs(c, s.keep), c.Stop()) }()
	proxy, err := faultproxy.New(c)
	if err != nil {
		return 0, err
	}
	defer proxy.Close()
	kubeconfig := filepath.Join(c.Dir(), "through-proxy.kubeconfig")
	if err := proxy.WriteKubeconfig(c.ControllerManagerKubeconfig(), kubeconfig); err != nil {
		return 0, err
	}
	k := &keeper{c: c, kind: s.kind, args: append([]string{"--kubeconfig=" + kubeconfig}, managerArgs...)}
	if err := k.start(ctx); err != nil {
		return 0, err
	}
	if err := c.WaitUsable(ctx); err != nil {
		return 0, err
	}
	b := &breaker{c: c, proxy: proxy, k: k, rand: rand.New(rand.NewPCG(s.seed, 1)), dice: rand.New(rand.NewPCG(s.seed, 2)), counts: map[string]int{}}
	custom, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return 0, err
	}
	d := newDriver(c, custom, rand.New(rand.NewPCG(s.seed, 3)), has)
	d.only = s.only
	if err := d.prepare(ctx); err != nil {
		return 0, err
	}
	return play(ctx, s, k, b, d)
}

// controllers returns which controllers the manager runs.
func controllers(ctx context.Context, s settings) (func(string) bool, error) {
	if s.kind == cluster.Upstream {
		return func(string) bool { return true }, nil
	}
	out, err := exec.CommandContext(ctx, s.orrery, "controllers").Output()
	if err != nil {
		return nil, fmt.Errorf("list controllers of %s: %w", s.orrery, err)
	}
	var built []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 && !strings.Contains(line, "not in this build") {
			built = append(built, f[0])
		}
	}
	return func(name string) bool { return slices.Contains(built, name) }, nil
}

// watcher feeds the checker and prints the violations that it finds.
type watcher struct {
	feed   *feed
	mu     sync.Mutex // guards check and broken
	check  *checker.Checker
	broken int
}

func (w *watcher) watch(ctx context.Context) {
	for sleep(ctx, 200*time.Millisecond) {
		w.step(time.Now())
	}
}

func (w *watcher) step(now time.Time) {
	events := w.feed.take(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.check.Apply(e)
	}
	w.check.Tick(now.Add(-lag))
	w.report()
}

// report prints the violations that were found.
func (w *watcher) report() {
	for _, v := range w.check.Take() {
		w.broken++
		fmt.Println(v)
	}
}

func (w *watcher) disturbed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check.Disturbed(time.Now().Add(recovery))
}

func (w *watcher) unsettled() ([]string, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.check.Unsettled()
	return names, w.check.Show(names)
}

// play runs changes and faults, then waits until everything has settled, and returns what was found.
func play(ctx context.Context, s settings, k *keeper, b *breaker, d *driver) (int, error) {
	live, stop := context.WithCancel(ctx)
	defer stop()
	custom, err := metadata.NewForConfig(b.c.RESTConfig())
	if err != nil {
		return 0, err
	}
	w := &watcher{feed: follow(live, sources(d.api, custom)), check: checker.New()}
	w.disturbed()
	var always, timed sync.WaitGroup
	always.Go(func() { w.watch(live) })
	always.Go(func() { k.keep(live) })
	short, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	timed.Go(func() { d.play(short) })
	if !s.quiet {
		timed.Go(func() { b.play(short, w.disturbed) })
	}
	timed.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	say("the faults are over; everything has %v to settle", ending)
	if err := d.finish(ctx); err != nil {
		return 0, err
	}
	if !w.settle(ctx, b.c, d) {
		k.dump()
	}
	left, err := leftovers(ctx, d.api, custom)
	if err != nil {
		return 0, err
	}
	for _, o := range left {
		w.broken++
		say("VIOLATION namespace: %s is there, and its namespace is not", o)
	}
	stop()
	always.Wait()
	w.check.Conclude()
	w.report()
	for _, line := range k.crashes() {
		w.broken++
		say("VIOLATION crash: %s", line)
	}
	say("seen: %s; %d lists again", w.check.Summary(), w.feed.lists-len(w.feed.down))
	say("changes: %d; the manager was started %d times; faults: %s", d.done, k.restarts, b.summary())
	say("seed %d: %d violations", s.seed, w.broken)
	return w.broken, nil
}

// settle waits until all objects are in their final state, and reports whether they got there.
func (w *watcher) settle(ctx context.Context, c *cluster.Cluster, d *driver) bool {
	w.disturbed()
	begin := time.Now()
	for woken := begin; ; sleep(ctx, time.Second) {
		if !d.has("job-controller") {
			_ = d.endJobs(ctx) // again in a moment
		}
		_ = d.removeFinalizers(ctx, 1)
		_ = d.allReady(ctx)
		names, lines := w.unsettled()
		if len(names) == 0 && time.Since(begin) > 2*lag {
			say("all is settled after %v", time.Since(begin).Round(time.Second))
			return true
		}
		if time.Since(begin) > ending || ctx.Err() != nil {
			w.broken++
			say("VIOLATION convergence: not settled after %v: %s\n    %s", ending, strings.Join(names, ", "), strings.Join(lines, "\n    "))
			return false
		}
		if time.Since(woken) > longest+10*time.Second { // a kubelet whose write was lost tries again; these do not
			woken = time.Now()
			say("kubelets are woken; not settled yet: %s", strings.Join(names, ", "))
			if err := c.WakeKubelets(ctx); err != nil {
				say("wake kubelets: %v", err)
			}
		}
	}
}
