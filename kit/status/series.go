package status

import (
	"context"
	"time"

	"orrery/kit"
	"orrery/kit/client"
)

const (
	period = 10 * time.Second // between two samples
	span   = 15 * time.Minute // how far back samples are kept
	slots  = int(span / period)
)

// point is what happened between two samples.
type point struct {
	rate, failures float32 // per second
	mean, slowest  float32 // seconds that a reconcile took
	queue          float32 // keys in the queue at the end
}

// series is a ring buffer with the last points of one measurement.
type series struct {
	points [slots]point
	count  int
}

func (s *series) add(p point) {
	s.points[s.count%slots] = p
	s.count++
}

// values returns a value of each point, oldest first, and zero for points that do not exist yet.
func (s *series) values(read func(*point) float32) []float64 {
	out := make([]float64, slots)
	for i := range min(s.count, slots) {
		out[slots-1-i] = float64(read(&s.points[(s.count-1-i)%slots]))
	}
	return out
}

// measured holds the samples of a loop.
type measured struct {
	series
	before kit.Sample
}

// samples holds all samples of a page.
type samples struct {
	at       time.Time
	loops    map[string]*measured
	all      series // of all loops together
	requests series
	traffic  client.TrafficCount
}

// Run samples until ctx ends.
func (p *Page) Run(ctx context.Context) error {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		p.sample(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// sample adds a point to every series.
func (p *Page) sample(now time.Time) {
	loops := p.c.Controllers()
	counts := make([]kit.Sample, len(loops))
	for i, l := range loops {
		counts[i] = l.Sample()
	}
	traffic := p.traffic()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.samples
	passed := float32(now.Sub(s.at).Seconds())
	first := s.at.IsZero()
	s.at = now
	var all point
	for i, l := range loops {
		m := s.loops[l.Name()]
		if m == nil {
			m = &measured{}
			s.loops[l.Name()] = m
		}
		one := m.since(counts[i], passed)
		if first {
			one = point{queue: one.queue}
		}
		m.add(one)
		all.rate, all.failures, all.queue = all.rate+one.rate, all.failures+one.failures, all.queue+one.queue
		all.slowest = max(all.slowest, one.slowest)
	}
	s.all.add(all)
	if !first {
		s.requests.add(point{
			rate:     float32(traffic.Reads+traffic.Writes-s.traffic.Reads-s.traffic.Writes) / passed,
			failures: float32(traffic.Throttled-s.traffic.Throttled) / passed,
		})
	}
	s.traffic = traffic
}

// since returns what was counted since the previous sample, passed seconds ago.
func (m *measured) since(now kit.Sample, passed float32) point {
	p := point{queue: float32(now.Queue), slowest: float32(now.Slowest.Seconds())}
	if n := now.Reconciles - m.before.Reconciles; n > 0 && passed > 0 {
		p.rate = float32(n) / passed
		p.failures = float32(now.Failures-m.before.Failures) / passed
		p.mean = float32((now.Took - m.before.Took).Seconds()) / float32(n)
	}
	m.before = now
	return p
}

func (p *Page) traffic() client.TrafficCount {
	if p.c.Traffic == nil {
		return client.TrafficCount{}
	}
	return p.c.Traffic.Count()
}
