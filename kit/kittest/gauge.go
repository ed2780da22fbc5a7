package kittest

import (
	"sync"
	"time"
)

// Gauge measures how many calls are under way at once. The zero value is ready. It is safe for concurrent use.
type Gauge struct {
	mu        sync.Mutex // guards now and most
	now, most int
}

// Hold is called by a call, and keeps it under way for some time.
func (g *Gauge) Hold(d time.Duration) {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	time.Sleep(d)
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
}

// Most returns the largest number of calls that were under way at once.
func (g *Gauge) Most() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}
