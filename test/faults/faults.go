package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/faultproxy"
)

// breaker injects faults.
type breaker struct {
	c     *cluster.Cluster
	proxy *faultproxy.Proxy
	k     *keeper
	rand  *rand.Rand

	mu     sync.Mutex // guards dice, which requests throw
	dice   *rand.Rand
	counts map[string]int
}

// fault is one kind of fault. It logs what it does and returns when the fault is over.
type fault struct {
	name string
	// share is how many times the fault is in the bag from which faults are drawn.
	share int
	run   func(ctx context.Context) error
}

func (b *breaker) faults() []fault {
	return []fault{
		{"kill", 2, b.kill},
		{"kill at a slot", 0, b.killAtSlot}, // when it is time
		{"stop", 1, b.stop},
		{"freeze", 1, b.freeze},
		{"API server restart", 1, b.restartServer},
		{"cut connections", 1, b.cut},
		{"late watches", 2, b.late},
		{"409", 1, b.storm(http.StatusConflict, "Conflict", changes)},
		{"429", 1, b.storm(http.StatusTooManyRequests, "TooManyRequests", all)},
		{"500", 1, b.storm(http.StatusInternalServerError, "InternalError", writes)},
		{"lost answers", 2, b.lose},
	}
}

// play injects one fault after the other until ctx ends, and calls disturbed after each. Faults are drawn from a bag that is
// refilled when it is empty, so that even a short run has all of them; only the kill at a CronJob's slot is scheduled.
func (b *breaker) play(ctx context.Context, disturbed func()) {
	var bag []fault
	for sleep(ctx, b.between(500, 4000)) {
		if len(bag) == 0 {
			for _, f := range b.faults() {
				bag = append(bag, slices.Repeat([]fault{f}, f.share)...)
			}
			b.rand.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		f := bag[0]
		if untilSlot() < 12*time.Second && b.rand.IntN(4) > 0 {
			f = b.faults()[1]
		} else {
			bag = bag[1:]
		}
		b.counts[f.name]++
		if err := f.run(ctx); err != nil && ctx.Err() == nil {
			say("fault %s: %v", f.name, err)
		}
		disturbed()
	}
}

// untilSlot returns the time until CronJobs are due.
func untilSlot() time.Duration { return time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)) }

// between returns a random duration between two numbers of milliseconds.
func (b *breaker) between(low, high int) time.Duration {
	return time.Duration(low+b.rand.IntN(high-low)) * time.Millisecond
}

// sleep waits, and returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (b *breaker) kill(context.Context) error {
	away := b.between(0, 4000)
	say("FAULT the manager is killed, and away for %v", away)
	return b.k.down(syscall.SIGKILL, away)
}

// killAtSlot kills the manager when CronJobs are due, while it creates and records their Jobs.
func (b *breaker) killAtSlot(ctx context.Context) error {
	after, away := b.between(90, 500), b.between(0, 3000)
	if !sleep(ctx, untilSlot()+after) {
		return nil
	}
	say("FAULT the manager is killed %v after a slot, and away for %v", after, away)
	return b.k.down(syscall.SIGKILL, away)
}

func (b *breaker) stop(context.Context) error {
	say("FAULT the manager is told to stop")
	return b.k.down(syscall.SIGTERM, 0)
}

func (b *breaker) freeze(ctx context.Context) error {
	p, d := b.k.process(), b.between(1000, 8000)
	say("FAULT the manager is frozen for %v", d)
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, d)
	return p.Signal(syscall.SIGCONT)
}

func (b *breaker) restartServer(ctx context.Context) error {
	away := b.between(0, 3000)
	say("FAULT the API server is killed, and away for %v", away)
	if err := b.c.KillAPIServer(); err != nil {
		return err
	}
	time.Sleep(away)
	return b.c.RestartAPIServer(context.WithoutCancel(ctx))
}

func (b *breaker) cut(context.Context) error {
	say("FAULT all connections are cut")
	b.proxy.Cut()
	return nil
}

// late delays the watches of some kinds by a few seconds.
func (b *breaker) late(ctx context.Context) error {
	by, d := b.between(500, 6000), b.between(5000, 15000)
	var kinds []string
	for _, kind := range []string{"pods", "replicasets", "deployments", "statefulsets", "daemonsets", "jobs", "cronjobs", "poddisruptionbudgets", "controllerrevisions",
		"namespaces", "configmaps", "widgets", "services", "endpointslices", "nodes", "leases"} {
		if b.rand.IntN(2) == 0 {
			kinds = append(kinds, kind)
		}
	}
	say("FAULT watches of %v are late by %v, for %v", kinds, by, d)
	b.proxy.Misbehave(nil, func(r *http.Response) error {
		if r.Request.URL.Query().Get("watch") == "" {
			return nil
		}
		for _, kind := range kinds {
			if strings.HasSuffix(r.Request.URL.Path, "/"+kind) {
				r.Body = faultproxy.Delay(r.Body, by)
			}
		}
		return nil
	})
	b.proxy.Cut()
	sleep(ctx, d)
	b.proxy.Misbehave(nil, nil)
	b.proxy.Cut()
	return nil
}

func onLease(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases/") }
func all(*http.Request) bool       { return true }
func writes(r *http.Request) bool  { return r.Method != http.MethodGet }
func changes(r *http.Request) bool {
	return r.Method == http.MethodPut || r.Method == http.MethodPatch
}

// storm rejects a share of the requests, except those for the lease: otherwise every storm would end the manager.
func (b *breaker) storm(code int, reason string, hit func(*http.Request) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		d, share := b.between(2000, 8000), 1+b.rand.IntN(9)
		say("FAULT %d of 10 requests are answered %d, for %v", share, code, d)
		b.proxy.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			if onLease(r) || !hit(r) || b.throw(10) >= share {
				return false
			}
			if code == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "1")
			}
			faultproxy.Refuse(w, code, reason)
			return true
		}, nil)
		sleep(ctx, d)
		b.proxy.Misbehave(nil, nil)
		return nil
	}
}

// lose drops the responses to some writes that have been carried out, and drops other writes before they are.
func (b *breaker) lose(ctx context.Context) error {
	d, share := b.between(2000, 8000), 1+b.rand.IntN(5)
	say("FAULT the answers to %d of 10 writes are lost, and as many writes, for %v", share, d)
	lost := func(r *http.Request) bool { return writes(r) && !onLease(r) && b.throw(10) < share }
	b.proxy.Misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if lost(r) {
			faultproxy.Lose()
		}
		return false
	}, func(r *http.Response) error {
		if lost(r.Request) {
			return errors.New("lost")
		}
		return nil
	})
	sleep(ctx, d)
	b.proxy.Misbehave(nil, nil)
	return nil
}

func (b *breaker) throw(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dice.IntN(n)
}

// summary returns how often each fault was injected.
func (b *breaker) summary() string {
	var out []string
	for _, f := range b.faults() {
		out = append(out, fmt.Sprintf("%s %d", f.name, b.counts[f.name]))
	}
	return strings.Join(out, ", ")
}
