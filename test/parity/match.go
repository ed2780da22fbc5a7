package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A match is one program, played in both worlds.
type match struct {
	settings
	worlds    [2]*world
	program   program
	namespace string
	sides     [2]*subject
	log       strings.Builder
	views     [2]view
}

// A view is what a namespace held when it was last looked at.
type view struct {
	changes int
	objects []string
}

func newMatch(s settings, worlds [2]*world, p program) *match {
	return &match{settings: s, worlds: worlds, program: p, namespace: p.name}
}

// play runs all steps and returns a report if the worlds came to differ.
func (m *match) play(ctx context.Context) string {
	if err := m.both(func(i int) (err error) {
		m.sides[i], err = m.worlds[i].prepare(ctx, m.namespace)
		return err
	}); err != nil {
		return fmt.Sprintf("prepare: %v", err)
	}
	for i, step := range m.program.steps {
		fmt.Fprintf(&m.log, "  %d. %s\n", i+1, step.text)
		if m.verbose {
			say("%s: %d. %s", m.program.name, i+1, step.text)
		}
		if report := m.step(ctx, step); report != "" {
			return m.log.String() + report
		}
	}
	if m.events {
		if report := m.compareEvents(ctx); report != "" {
			return m.log.String() + report
		}
	}
	fmt.Fprintln(&m.log, "  the namespace is deleted")
	return m.finish(ctx)
}

// both runs a function for both sides at the same time.
func (m *match) both(do func(i int) error) error {
	second := make(chan error, 1)
	go func() { second <- do(1) }()
	return errors.Join(do(0), <-second)
}

func (m *match) step(ctx context.Context, step step) string {
	var failed [2]string
	_ = m.both(func(i int) error {
		if err := step.do(ctx, m.sides[i]); err != nil {
			failed[i] = m.worlds[i].plain(m.namespace, err.Error())
		}
		return nil
	})
	if failed[0] != failed[1] {
		return fmt.Sprintf("the step's result differs:\n- %s: %s\n+ %s: %s\n%s", m.worlds[0].name, failed[0], m.worlds[1].name, failed[1], m.difference())
	}
	if failed[0] != "" {
		fmt.Fprintf(&m.log, "     in both: %s\n", failed[0])
	}
	if step.now || step.hurry && m.hurry {
		return ""
	}
	patience := m.patience
	if step.patience > 0 {
		patience = step.patience
	}
	if m.settle(ctx, patience) {
		return ""
	}
	return cmp.Or(m.difference(), "the clusters are equal, but do not come to rest")
}

// settle waits until both namespaces are equal and have been so for a while.
func (m *match) settle(ctx context.Context, patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	since := time.Now()
	for {
		changed := m.refresh()
		equal := slices.Equal(m.views[0].objects, m.views[1].objects)
		now := time.Now()
		if changed || !equal {
			since = now
		}
		if equal && now.Sub(since) >= m.quiet {
			return true
		}
		if ctx.Err() != nil || !equal && now.After(deadline) || now.After(deadline.Add(time.Minute)) {
			return false
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// refresh looks at both namespaces and returns whether either has changed.
func (m *match) refresh() (changed bool) {
	for i, w := range m.worlds {
		changes, objects := w.look(m.namespace, m.views[i].changes)
		if objects != nil {
			// Heartbeats change nothing that is seen here.
			changed = changed || !slices.Equal(objects, m.views[i].objects)
			m.views[i] = view{changes: changes, objects: objects}
		}
	}
	return changed
}

// difference returns the objects that only one of the worlds has.
func (m *match) difference() string {
	m.refresh()
	return compare(m.views[0].objects, m.views[1].objects, m.worlds[0].name, m.worlds[1].name)
}

// compareEvents waits for the events to be equal, too.
func (m *match) compareEvents(ctx context.Context) string {
	var report string
	for range 40 {
		report = m.eventDifference()
		if report == "" || ctx.Err() != nil {
			return ""
		}
		time.Sleep(200 * time.Millisecond)
	}
	return "  events:\n" + report
}

// eventDifference compares the events that are known to be all there in both worlds.
func (m *match) eventDifference() string {
	var lines [2][]string
	var about [2]map[[2]string][]string
	full := map[[2]string]bool{}
	for i, w := range m.worlds {
		var some map[[2]string]bool
		about[i], some = w.happened(m.namespace)
		maps.Copy(full, some)
	}
	for i := range about {
		for what, of := range about[i] {
			if !full[what] && !full[[2]string{what[0]}] {
				lines[i] = append(lines[i], of...)
			}
		}
	}
	return compare(sorted(lines[0]), sorted(lines[1]), m.worlds[0].name, m.worlds[1].name)
}

// finish deletes the namespace and waits for its end.
func (m *match) finish(ctx context.Context) string {
	err := m.both(func(i int) error {
		m.worlds[i].end(m.namespace)
		err := m.worlds[i].client.CoreV1().Namespaces().Delete(ctx, m.namespace, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Sprintf("delete the namespace: %v", err)
	}
	_ = m.both(func(i int) error { m.sides[i].clear(ctx); return nil })
	deadline := time.Now().Add(2 * time.Minute)
	for m.refresh(); len(m.views[0].objects)+len(m.views[1].objects) > 0; m.refresh() {
		if ctx.Err() != nil || time.Now().After(deadline) {
			return m.log.String() + "what is left:\n" + m.difference() + strings.Join(m.views[1].objects, "---\n")
		}
		_ = m.both(func(i int) error { m.sides[i].release(ctx); return nil })
		time.Sleep(200 * time.Millisecond)
	}
	return ""
}

// compare returns the elements of one list that are not in the other, each with the line diff to its closest counterpart.
func compare(a, b []string, nameA, nameB string) string {
	onlyA, onlyB := without(a, b), without(b, a)
	if len(onlyA)+len(onlyB) == 0 {
		return ""
	}
	var out strings.Builder
	for len(onlyA) > 0 && len(onlyB) > 0 {
		i, j := closest(onlyA, onlyB)
		if i < 0 {
			break
		}
		fmt.Fprintf(&out, "--- %s\n+++ %s\n%s", nameA, nameB, lineDiff(onlyA[i], onlyB[j]))
		onlyA, onlyB = slices.Delete(onlyA, i, i+1), slices.Delete(onlyB, j, j+1)
	}
	for _, text := range onlyA {
		fmt.Fprintf(&out, "only with %s:\n%s\n", nameA, brief(text))
	}
	for _, text := range onlyB {
		fmt.Fprintf(&out, "only with %s:\n%s\n", nameB, brief(text))
	}
	return out.String()
}

// brief leaves the specs of pods out, which are long and seldom of interest.
func brief(text string) string {
	before, after, found := strings.Cut(text, "\nspec:\n")
	_, status, ends := strings.Cut(after, "\nstatus:\n")
	if !found || !ends || !strings.Contains(before, "\nkind: Pod\n") {
		return text
	}
	return before + "\nstatus:\n" + status
}

// without returns what is in a more often than in b.
func without(a, b []string) (out []string) {
	count := map[string]int{}
	for _, text := range b {
		count[text]++
	}
	for _, text := range a {
		if count[text]--; count[text] < 0 {
			out = append(out, text)
		}
	}
	return out
}

// closest returns the pair of objects of one kind that have the most lines in common, or -1.
func closest(a, b []string) (int, int) {
	best, x, y := 0, -1, -1
	for i := range a {
		for j := range b {
			if kindOf(a[i]) != kindOf(b[j]) {
				continue
			}
			if n := len(common(strings.Split(a[i], "\n"), strings.Split(b[j], "\n"))); n > best {
				best, x, y = n, i, j
			}
		}
	}
	return x, y
}

func kindOf(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "kind: ") {
			return line
		}
	}
	return ""
}

// common returns the longest common subsequence, as pairs of positions.
func common(a, b []string) (out [][2]int) {
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			out = append(out, [2]int{i, j})
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return out
}

// lineDiff shows the lines that differ, with the object's kind and name and two lines around each difference.
func lineDiff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	var rows []string
	i, j := 0, 0
	for _, p := range append(common(x, y), [2]int{len(x), len(y)}) {
		for ; i < p[0]; i++ {
			rows = append(rows, "-"+x[i])
		}
		for ; j < p[1]; j++ {
			rows = append(rows, "+"+y[j])
		}
		if i < len(x) && j < len(y) {
			rows = append(rows, " "+x[i])
		}
		i, j = p[0]+1, p[1]+1
	}
	var out strings.Builder
	for n, r := range rows {
		near := slices.ContainsFunc(rows[max(0, n-2):min(len(rows), n+3)], func(r string) bool { return !strings.HasPrefix(r, " ") })
		if near || strings.HasPrefix(r, " kind: ") || strings.HasPrefix(r, "   name: ") {
			out.WriteString(r + "\n")
		}
	}
	return out.String()
}
