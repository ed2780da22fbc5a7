package manager

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"orrery/kit/events"
)

// lastEvents is how long a stopping process keeps the lease to send events that have not reached the server yet.
const lastEvents = 300 * time.Millisecond

// publisher publishes events until it is ended, with one configuration and any that are added to it.
type publisher struct {
	*events.Publisher
	ctx context.Context
	end context.CancelFunc

	mu      sync.Mutex // guards further
	further []*events.Publisher
}

// under returns a publisher with another configuration that ends together with this one.
func (p *publisher) under(config *rest.Config) (*events.Publisher, error) {
	f, err := events.NewPublisher(p.ctx, config)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.further = append(p.further, f)
	return f, nil
}

// close sends what can be sent until ctx ends, for lastEvents at most, and ends the publishers.
func (p *publisher) close(ctx context.Context) {
	defer p.end()
	ctx, cancel := context.WithTimeout(ctx, lastEvents)
	defer cancel()
	p.mu.Lock()
	all := append([]*events.Publisher{p.Publisher}, p.further...)
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, each := range all {
		wg.Go(func() { each.Flush(ctx) })
	}
	wg.Wait()
}
