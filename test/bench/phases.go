package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"orrery/hack/localcluster/cluster"
)

const (
	phaseTimeout = 15 * time.Minute
	poll         = 50 * time.Millisecond
	idleTime     = 20 * time.Second
)

// size is a number of objects of one kind, and of pods of each.
type size struct{ count, each int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.count, s.each) }

// result is one phase under one manager.
type result struct {
	Manager  string        `json:"manager"`
	Round    int           `json:"round"`
	Size     string        `json:"size"`
	Phase    string        `json:"phase"`
	Pods     int           `json:"pods"`
	Wall     time.Duration `json:"wallNanoseconds"`
	CPU      time.Duration `json:"cpuNanoseconds"`
	RSS      int64         `json:"rssBytes"`
	Peak     int64         `json:"peakRssBytes"`
	Requests float64       `json:"requests"`
	// Left is what was left over, by kind, in the one result per round that says so.
	Left map[string]int `json:"left,omitempty"`
}

// leftPhase is the name of that result.
const leftPhase = "left over"

// bench is one manager under measurement.
type bench struct {
	settings
	kind    cluster.ManagerKind
	round   int
	client  kubernetes.Interface
	manager *manager
	results []result
}

func measure(ctx context.Context, c *cluster.Cluster, s settings, kind cluster.ManagerKind, round int) ([]result, error) {
	b := &bench{settings: s, kind: kind, round: round, client: c.Client()}
	for _, one := range s.sizes {
		// A process of its own for each size, so that peaks of memory do not add up.
		if err := b.with(ctx, c, func() error { return b.workload(ctx, one) }); err != nil {
			return nil, fmt.Errorf("%s: %w", one, err)
		}
	}
	daemonSets := func(ctx context.Context) error { return b.daemonSets(ctx, c) }
	for _, more := range []func(context.Context) error{b.jobs, b.statefulSets, daemonSets, b.bare} {
		if err := b.with(ctx, c, func() error { return more(ctx) }); err != nil {
			return nil, err
		}
	}
	left, err := b.leftovers(ctx)
	return append(b.results, result{Manager: string(kind), Round: round, Phase: leftPhase, Left: left}), err
}

func (b *bench) with(ctx context.Context, c *cluster.Cluster, f func() error) error {
	var err error
	if b.manager, err = start(ctx, c, b.settings, b.kind); err != nil {
		return err
	}
	err = f()
	if stop := b.manager.stop(ctx); err == nil {
		err = stop
	}
	return err
}

// phase measures what happens between do and the moment done reports true. Phases that were not asked for run all the
// same if later ones need what they make.
func (b *bench) phase(ctx context.Context, name, size string, pods int, do func() error, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	before, err := b.manager.sample(ctx)
	if err != nil {
		return err
	}
	profile := b.profile(ctx, name)
	begin := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for {
		ok, err := done()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if ok {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not done after %s", name, phaseTimeout)
		case <-time.After(poll):
		}
	}
	wall := time.Since(begin)
	if err := profile(); err != nil {
		return fmt.Errorf("%s: profile: %w", name, err)
	}
	if err := b.stopped(ctx); err != nil {
		return fmt.Errorf("%s: wait for pods to stop: %w", name, err)
	}
	time.Sleep(500 * time.Millisecond) // what it still does for the phase belongs to the phase
	after, err := b.manager.sample(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(b.phases, name) {
		b.results = append(b.results, result{
			Manager: string(b.kind), Round: b.round, Size: size, Phase: name, Pods: pods, Wall: wall,
			CPU: after.cpu - before.cpu, RSS: after.rss, Peak: after.peak, Requests: after.requests - before.requests,
		})
		fmt.Printf("%-8s %-6s %-8s %6.2fs wall %6.2fs cpu %7.0f requests %4d MiB peak\n", b.kind, size, name, wall.Seconds(), (after.cpu - before.cpu).Seconds(), after.requests-before.requests, after.peak>>20)
	}
	return nil
}

// stopped returns once no pod is being stopped any more. A phase is over before, when nobody waits for these pods; but the
// kubelets are slower than the managers, and the next phase of the faster manager would begin with more of them.
func (b *bench) stopped(ctx context.Context) error {
	for {
		pods, err := b.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		stopping := func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }
		if !slices.ContainsFunc(pods.Items, stopping) {
			return nil
		}
		time.Sleep(5 * poll)
	}
}

// step is one phase of a workload: what is done, and how one sees that it is over.
type step struct {
	name string
	do   func() error
	done func() (bool, error)
}

// steps measures the phases of a workload in order, if any of them was asked for: later ones need what earlier ones
// make. prepare is not measured.
func (b *bench) steps(ctx context.Context, size string, pods int, prepare func() error, all []step) error {
	if !slices.ContainsFunc(all, func(s step) bool { return slices.Contains(b.phases, s.name) }) {
		return nil
	}
	if err := prepare(); err != nil {
		return err
	}
	for _, s := range all {
		if err := b.phase(ctx, s.name, size, pods, s.do, s.done); err != nil {
			return err
		}
	}
	return nil
}

// workload runs the phases of Deployments with Services in one namespace.
func (b *bench) workload(ctx context.Context, s size) error {
	w := &workload{client: b.client, namespace: fmt.Sprintf("bench-%s-%s-%d", b.kind, s, b.round), size: s}
	return b.steps(ctx, s.String(), s.count*s.each, func() error { return w.prepare(ctx) }, []step{
		{"create", func() error { return w.create(ctx) }, func() (bool, error) { return w.settled(ctx, s.each) }},
		{"roll", func() error { return w.patch(ctx, rolled) }, func() (bool, error) { return w.settled(ctx, s.each) }},
		{"zero", func() error { return w.patch(ctx, `{"spec":{"replicas":0}}`) }, func() (bool, error) { return w.settled(ctx, 0) }},
		{"up", func() error { return w.patch(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, s.each)) }, func() (bool, error) { return w.settled(ctx, s.each) }},
		{"delete", func() error { return w.remove(ctx) }, func() (bool, error) { return w.gone(ctx) }},
	})
}

// rolled is a change of a pod template.
const rolled = `{"spec":{"template":{"metadata":{"annotations":{"bench":"rolled"}}}}}`

// bare runs the phases of ReplicaSets whose pods nothing schedules, and idleness.
func (b *bench) bare(ctx context.Context) error {
	if slices.Contains(b.phases, "idle") {
		begin := time.Now()
		err := b.phase(ctx, "idle", "", 0, func() error { return nil }, func() (bool, error) { return time.Since(begin) > idleTime, nil })
		if err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name        string
		sets, count int
	}{{"pending", 1, b.pending}, {"many", 20, 150}} {
		if !slices.Contains(b.phases, p.name) {
			continue
		}
		ns := fmt.Sprintf("bench-%s-%s-%d", b.kind, p.name, b.round)
		if err := makeNamespace(ctx, b.client, ns); err != nil {
			return err
		}
		r := &replicaSets{client: b.client, namespace: ns, sets: p.sets, replicas: p.count}
		size := fmt.Sprintf("%dx%d", p.sets, p.count)
		if err := b.phase(ctx, p.name, size, p.sets*p.count, func() error { return r.create(ctx) }, func() (bool, error) { return r.complete(ctx) }); err != nil {
			return err
		}
		b.phases = append(b.phases, p.name+"-gc")
		if err := b.phase(ctx, p.name+"-gc", size, p.sets*p.count, func() error { return r.remove(ctx) }, func() (bool, error) { return r.gone(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func makeNamespace(ctx context.Context, c kubernetes.Interface, name string) error {
	err := createNamespace(ctx, c, name)
	if err != nil {
		return err
	}
	for range 600 {
		if _, err = c.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err == nil {
			return nil
		}
		time.Sleep(poll)
	}
	return fmt.Errorf("namespace %s got no default service account: %w", name, err)
}

func createNamespace(ctx context.Context, c kubernetes.Interface, name string) error {
	_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// replicaSets are sets whose pods name a scheduler that does not exist.
type replicaSets struct {
	client         kubernetes.Interface
	namespace      string
	sets, replicas int
}

func (r *replicaSets) create(ctx context.Context) error {
	for i := range r.sets {
		name := fmt.Sprintf("set-%d", i)
		labels := map[string]string{"app": name}
		n := int32(r.replicas)
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: appsv1.ReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: template(labels, "nobody"),
		}}
		if _, err := r.client.AppsV1().ReplicaSets(r.namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (r *replicaSets) complete(ctx context.Context) (bool, error) {
	list, err := r.client.AppsV1().ReplicaSets(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		if int(list.Items[i].Status.Replicas) != r.replicas {
			return false, nil
		}
	}
	return len(list.Items) == r.sets, nil
}

func (r *replicaSets) remove(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	return r.client.AppsV1().ReplicaSets(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
}

func (r *replicaSets) gone(ctx context.Context) (bool, error) {
	return podsGone(ctx, r.client, r.namespace)
}
