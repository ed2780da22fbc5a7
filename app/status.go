package app

import (
	"slices"
	"strings"

	"k8s.io/component-base/version"

	"orrery/kit"
	"orrery/kit/manager"
	"orrery/kit/status"
)

// newStatusPage returns the page that shows what the daemon is doing.
func (d *daemon) newStatusPage() *status.Page {
	summaries := map[string]string{}
	for _, c := range d.options.Controllers {
		summaries[c.Name] = c.Summary
	}
	return status.New(status.Config{
		Component: component, Version: version.Get().GitVersion, Summaries: summaries,
		Controllers: d.manager.Controllers, NotRunning: d.notRunning, Leadership: d.manager.Leadership,
		Caches: d.manager.Cache().Informers, Traffic: d.clients.traffic, Limit: max(0, d.options.QPS), DryRun: d.dryRun,
	})
}

// notRunning returns the controllers without a loop, and why they have none.
func (d *daemon) notRunning() (out []status.NotRunning) {
	loops := d.manager.Controllers()
	for _, c := range d.options.Controllers {
		if slices.ContainsFunc(loops, func(l kit.Controller) bool { return l.Descriptor() == c.Name }) {
			continue
		}
		why := d.options.DisabledReason(c)
		switch {
		case why != "":
			why = "disabled: " + why
		case !d.built.Load():
			why = "not started: this process does not lead yet"
		case d.migration != nil && d.options.Migration().Includes(c.Name) && !d.migrated.Load():
			why = "not started: " + waitsFor(d.migration.Leadership())
		case len(c.Kinds) > 0:
			var kinds []string
			for _, k := range c.Kinds {
				kinds = append(kinds, k.GroupKind().String()+"/"+k.Version)
			}
			why = "waits until the API server has " + strings.Join(kinds, ", ")
		default:
			why = "skipped: there is nothing to run with these flags on this API server; the log says more"
		}
		out = append(out, status.NotRunning{Name: c.Name, Summary: c.Summary, Why: why})
	}
	return out
}

// waitsFor says that something waits for a lease, and who holds it.
func waitsFor(l manager.Leadership) string {
	if l.Leading || l.Holder == "" {
		return "it waits for the lease " + l.Lease
	}
	return "it waits for the lease " + l.Lease + ", which " + l.Holder + " holds"
}
