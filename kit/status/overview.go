package status

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/manager"
)

// Overview is what the whole process is doing.
type Overview struct {
	Component string    `json:"component"`
	Version   string    `json:"version"`
	Now       time.Time `json:"now"`
	Started   time.Time `json:"started"`
	// Controllers are the names of the loops that have been built.
	Controllers []string `json:"controllers"`

	Leadership manager.Leadership `json:"leadership"`
	DryRun     *DryRun            `json:"dryRun,omitempty"` // nil if this is not a dry run
	Loops      []Loop             `json:"loops"`
	// NotRunning are the controllers that have no loop.
	NotRunning []NotRunning `json:"notRunning"`
	Caches     []Cache      `json:"caches"`
	Requests   Requests     `json:"requests"`
	Process    Process      `json:"process"`
}

// Loop is the current state of one loop.
type Loop struct {
	kit.State
	Summary string `json:"summary,omitempty"`
	// What it did in the last minute.
	PerSecond float64       `json:"reconcilesPerSecond"`
	Mean      time.Duration `json:"meanNanoseconds"`
	Slowest   time.Duration `json:"slowestNanoseconds"`
}

// DryRun is what a dry run would have written.
type DryRun struct {
	Writes  []kit.WouldWrite `json:"writes"`  // what it would write now, the latest first
	Settled uint64           `json:"settled"` // writes that left the list because they were no longer needed
	Dropped uint64           `json:"dropped"` // writes that left the list because it was full
}

// NotRunning is a controller that has no loop, and why.
type NotRunning struct {
	Name    string `json:"name"`
	Summary string `json:"summary,omitempty"`
	Why     string `json:"why"`
}

// Cache is the state of the cache of one kind.
type Cache struct {
	Kind    string `json:"kind"`
	Version string `json:"version"` // group and version
	Form    string `json:"form"`
	Synced  bool   `json:"synced"`
	Error   string `json:"error,omitempty"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"approximateBytes"` // of the objects, without indexes
}

// Requests summarizes the requests to the API server.
type Requests struct {
	client.TrafficCount
	PerSecond float64 `json:"perSecond"` // in the last minute
	// Limit is the client-side limit per second; 0 means none.
	Limit float32 `json:"limitPerSecond"`
	// Waited is the total time that requests have waited for that limit.
	Waited time.Duration `json:"waitedNanoseconds"`
}

// Process is what the Go runtime reports about the process.
type Process struct {
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heapBytes"`
	Memory     uint64 `json:"memoryBytes"` // obtained from the system
}

// recently is the number of samples over which current rates are averaged.
const recently = int(time.Minute / period)

// Overview returns what the process is doing.
func (p *Page) Overview(now time.Time) Overview {
	o := Overview{
		Component: p.c.Component, Version: p.c.Version, Now: now, Started: p.started,
		Controllers: []string{}, Loops: []Loop{}, NotRunning: []NotRunning{}, Caches: p.caches(now), Process: process(),
	}
	if p.c.Leadership != nil {
		o.Leadership = p.c.Leadership()
	}
	if p.c.DryRun != nil {
		o.DryRun = &DryRun{}
		o.DryRun.Writes, o.DryRun.Settled, o.DryRun.Dropped = p.c.DryRun.Writes()
	}
	for _, c := range p.loops() {
		l := p.loop(c, now)
		l.Last = []kit.Entry{}
		o.Controllers = append(o.Controllers, l.Name)
		o.Loops = append(o.Loops, l)
	}
	if p.c.NotRunning != nil {
		o.NotRunning = append(o.NotRunning, p.c.NotRunning()...)
	}
	o.Requests = Requests{TrafficCount: p.traffic(), Limit: p.c.Limit}
	if p.c.Limit > 0 {
		o.Requests.Waited = waited()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o.Requests.PerSecond = mean(p.samples.requests.values(func(p *point) float32 { return p.rate }))
	return o
}

// loops returns the loops, sorted by name.
func (p *Page) loops() []kit.Controller {
	all := slices.Clone(p.c.Controllers())
	slices.SortFunc(all, func(a, b kit.Controller) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

func (p *Page) loop(c kit.Controller, now time.Time) Loop {
	l := Loop{State: c.State(now), Summary: p.c.Summaries[c.Descriptor()]}
	s := p.seriesOf(c.Name())
	rates := s.values(func(p *point) float32 { return p.rate })
	times := s.values(func(p *point) float32 { return p.rate * p.mean })
	l.PerSecond = mean(rates)
	if l.PerSecond > 0 {
		l.Mean = time.Duration(mean(times) / l.PerSecond * float64(time.Second))
	}
	slowest := s.values(func(p *point) float32 { return p.slowest })
	l.Slowest = time.Duration(slices.Max(slowest[slots-recently:]) * float64(time.Second))
	return l
}

// seriesOf returns a copy of the samples of a loop.
func (p *Page) seriesOf(name string) series {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.samples.loops[name]; m != nil {
		return m.series
	}
	return series{}
}

// mean returns the mean over the last minute.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values[slots-recently:] {
		sum += v
	}
	return sum / float64(recently)
}

// caches returns the state of all caches. It is computed once a period, as the cost grows with the number of objects.
func (p *Page) caches(now time.Time) []Cache {
	p.cachesMu.Lock()
	defer p.cachesMu.Unlock()
	if p.c.Caches == nil {
		return []Cache{}
	}
	if now.Sub(p.cachesAt) < period && p.cachesNow != nil {
		return p.cachesNow
	}
	p.cachesAt, p.cachesNow = now, []Cache{}
	for _, i := range p.c.Caches() {
		p.cachesNow = append(p.cachesNow, cacheOf(i))
	}
	return p.cachesNow
}

func cacheOf(i *cache.Informer) Cache {
	return Cache{
		Kind: i.GVK.Kind, Version: i.GVK.GroupVersion().String(), Form: i.Form.String(), Synced: i.HasSynced(),
		Error: i.LastError(), Objects: i.Len(), Bytes: i.Bytes(),
	}
}

func process() Process {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Process{Goroutines: runtime.NumGoroutine(), HeapBytes: m.HeapAlloc, Memory: m.Sys - m.HeapReleased}
}
