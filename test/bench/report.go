package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"orrery/hack/localcluster/cluster"
)

// report prints, for each phase, both managers' figures and Orrery's as a part of upstream's. Of several rounds the
// medians count.
func report(w io.Writer, all []result) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nsize\tphase\twall up\twall orrery\tratio\tpods/s up\tpods/s orrery\tcpu up\tcpu orrery\tratio\tcpu/1000 up\tcpu/1000 orrery\trequests up\trequests orrery\tpeak MiB up\tpeak MiB orrery\t")
	type key struct{ size, phase string }
	var keys []key
	for _, r := range all {
		if k := (key{r.Size, r.Phase}); r.Phase != leftPhase && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		of := func(kind cluster.ManagerKind) figures {
			var f figures
			for _, r := range all {
				if r.Size == k.size && r.Phase == k.phase && r.Manager == string(kind) {
					f.add(r)
				}
			}
			return f
		}
		up, own := of(cluster.Upstream), of(cluster.Orrery)
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%s\t%.0f\t%.0f\t%.2f\t%.2f\t%s\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", k.size, k.phase,
			up.wall(), own.wall(), ratio(own.wall(), up.wall()), per(up.pods, up.wall()), per(own.pods, own.wall()),
			up.cpu(), own.cpu(), ratio(own.cpu(), up.cpu()), 1000*per(up.cpu(), up.pods), 1000*per(own.cpu(), own.pods),
			median(up.requests), median(own.requests), median(up.peaks), median(own.peaks))
	}
	_ = t.Flush()
	reportLeftovers(w, all)
}

// figures are those of one phase under one manager over all rounds.
type figures struct {
	pods                         float64
	walls, cpus, peaks, requests []float64
}

func (f *figures) add(r result) {
	f.pods = float64(r.Pods)
	f.walls = append(f.walls, r.Wall.Seconds())
	f.cpus = append(f.cpus, r.CPU.Seconds())
	f.requests = append(f.requests, r.Requests)
	f.peaks = append(f.peaks, float64(r.Peak)/(1<<20))
}

func (f *figures) wall() float64 { return median(f.walls) }
func (f *figures) cpu() float64  { return median(f.cpus) }

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}
