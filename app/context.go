package app

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"

	"orrery/kit"
)

// contextFor returns the context that a controller is built with: that of the manager, under the controller's identity.
func (b *contextBuilder) contextFor(d kit.Descriptor) (ControllerContext, error) {
	m, c := b.daemon.manager, b.connections[d.Name]
	events, err := m.PublisherWithLease(c.config)
	if err != nil {
		return ControllerContext{}, err
	}
	cc := m.Context(d.Name)
	cc.Client = c.client.WithCache(m.Cache())
	cc.Live = cc.Client.Live()
	cc.Recorder = events.Recorder(m.Scheme(), cmp.Or(d.EventSource, d.Name))
	cc.Available, cc.Register = b.available, legacyregistry.MustRegister
	return cc, nil
}

// available reports whether the server serves a resource. A group that cannot be asked about counts as served, so that
// a broken moment at the start does not turn a controller off.
func (b *contextBuilder) available(gvr schema.GroupVersionResource) bool {
	list, err := b.daemon.clients.mapper.Known().ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if err != nil || list == nil {
		return err != nil && !apierrors.IsNotFound(err)
	}
	for _, r := range list.APIResources {
		if r.Name == gvr.Resource {
			return true
		}
	}
	return false
}

// DebugNames implements serving.Debugger.
func (d *daemon) DebugNames() []string {
	var names []string
	for _, c := range d.manager.Controllers() {
		names = append(names, c.Name())
	}
	return names
}

// DebugJSON implements serving.Debugger.
func (d *daemon) DebugJSON(name string) (any, error) { return d.state(name) }

// DebugText implements serving.Debugger.
func (d *daemon) DebugText(w io.Writer, name string) error {
	s, err := d.state(name)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "controller\t%s\nphase\t%s\n", s.Name, s.Phase)
	if s.Degraded != "" {
		fmt.Fprintf(t, "degraded\t%s\n", s.Degraded)
	}
	fmt.Fprintf(t, "workers\t%d\nqueue length\t%d\nlast success\t%s\n", s.Workers, s.QueueLength, when(s.LastSuccess))
	fmt.Fprintf(t, "\nSOURCE\tSYNCED\tERROR\n")
	for _, src := range s.Sources {
		fmt.Fprintf(t, "%s\t%t\t%s\n", src.Name, src.Synced, src.Error)
	}
	fmt.Fprintf(t, "\nRUNNING\tAGE\n")
	for _, r := range s.Running {
		fmt.Fprintf(t, "%s\t%s\n", r.Key, r.Age.Round(time.Millisecond))
	}
	fmt.Fprintf(t, "\nLAST\tOUTCOME\tAT\tTOOK\tERROR\n")
	for _, e := range s.Last {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.Key, e.Outcome, when(e.At), e.Took.Round(time.Microsecond), e.Error)
	}
	return t.Flush()
}

func (d *daemon) state(name string) (kit.State, error) {
	for _, c := range d.manager.Controllers() {
		if c.Name() == name {
			return c.State(time.Now()), nil
		}
	}
	return kit.State{}, fmt.Errorf("no controller %q is running", name)
}

func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}
