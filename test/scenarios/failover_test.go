package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// rounds is how often each fail-over is measured; `make bench-failover` makes ten rounds.
func rounds(t *testing.T, usual int) int {
	text := os.Getenv("ORRERY_ROUNDS")
	if text == "" {
		return usual
	}
	return must(strconv.Atoi(text))(t)
}

// replicas are several daemons on one cluster.
type replicas struct {
	*env
	args []string
	all  []*cluster.Process
}

// replicated starts n daemons on a cluster in which there is always something to write.
func replicated(t *testing.T, n int, args ...string) *replicas {
	t.Helper()
	r := &replicas{env: start(t, cluster.Options{NoKwok: true}), args: args}
	for range n {
		r.add(t)
	}
	if err := r.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	// It ends before the cluster does.
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			set := replicaSet(fmt.Sprint("load-", i), 1)
			if _, err := r.Client().AppsV1().ReplicaSets("default").Create(ctx, set, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				t.Errorf("load: %v", err)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return r
}

func (r *replicas) add(t *testing.T) { r.all = append(r.all, r.manage(t, cluster.Orrery, r.args...)) }

// leader waits until one of the daemons leads and writes, and returns it.
func (r *replicas) leader(t *testing.T) (leader *cluster.Process) {
	t.Helper()
	eventually(t, "one leads", func() error {
		leader = nil
		for _, p := range r.all {
			if p.Running() && strings.Contains(logOf(t, p), "Successfully acquired lease") {
				if leader != nil {
					return errors.New("two do")
				}
				leader = p
			}
		}
		if leader == nil {
			return errors.New("none does")
		}
		return nil
	})
	return leader
}

// succession ends the leader with a signal and returns how long it takes until another one writes.
func (r *replicas) succession(t *testing.T, signal syscall.Signal) time.Duration {
	t.Helper()
	leader := r.leader(t)
	sets := func() int { return len(r.audit(t, createdPod)) }
	made := sets()
	eventually(t, "the leader works", func() error {
		if sets() <= made {
			return errors.New("it made no pod")
		}
		return nil
	})
	begin := time.Now()
	old := r.credentials(t)
	if err := leader.Signal(signal); err != nil {
		t.Fatal(err)
	}
	var took time.Duration
	within(t, patience, "another writes", func() error {
		for _, a := range r.audit(t, createdPod) {
			if a.Received.After(begin) && !old[a.credential()] {
				took = a.Received.Sub(begin)
				return nil
			}
		}
		return errors.New("no pod was made")
	})
	if code := exited(t, leader, patience); signal == syscall.SIGTERM && code != 0 {
		t.Errorf("%s ended with %d", leader.Name(), code)
	}
	r.all = slices.DeleteFunc(r.all, func(p *cluster.Process) bool { return p == leader })
	return took
}

// createdPod is true for the creation of a pod for the load.
func createdPod(a auditEvent) bool {
	return a.byOrrery() && a.Verb == "create" && a.kind() == "pods" && a.Response.Code == 201
}

func median(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// TestFailOverAfterAStop stops the leader of three again and again.
func TestFailOverAfterAStop(t *testing.T) {
	t.Parallel()
	r := replicated(t, 3)
	var all []time.Duration
	for range rounds(t, 3) {
		all = append(all, r.succession(t, syscall.SIGTERM))
		r.add(t)
	}
	t.Logf("another writes %v after SIGTERM (median of %d: %v)", median(all), len(all), all)
	if limit := time.Second * slowness(t); median(all) > limit {
		t.Errorf("another writes %v after SIGTERM, want at most %v", median(all), limit)
	}
}

// TestFailOverAfterAKill kills the leader of three, which so cannot release its lease.
func TestFailOverAfterAKill(t *testing.T) {
	t.Parallel()
	duration, args := 4*time.Second, shortLease
	if os.Getenv("ORRERY_ROUNDS") != "" {
		duration, args = 15*time.Second, nil // as it is by default
	}
	r := replicated(t, 3, args...)
	var all []time.Duration
	for range rounds(t, 1) {
		all = append(all, r.succession(t, syscall.SIGKILL))
		r.add(t)
	}
	t.Logf("another writes %v after SIGKILL with a lease of %v (median of %d: %v)", median(all), duration, len(all), all)
	if limit := duration + time.Second*slowness(t); slices.Max(all) > limit {
		t.Errorf("another writes %v after SIGKILL, want at most %v", slices.Max(all), limit)
	}
}

// TestRenewalsAreNeverLate watches the lease while the daemon makes and removes pods as fast as it can.
func TestRenewalsAreNeverLate(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true, ControllerManager: cluster.Orrery, CMArgs: []string{"-v=2"}})
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	renewals := e.followRenewals(t)
	begin := time.Now()
	var busy time.Duration
	made := 0
	// At least four renewals fall into that time.
	for round := 0; time.Since(begin) < 9*time.Second; round++ {
		creating := time.Now()
		var names []string
		for i := range 10 {
			name := fmt.Sprint("crowd-", round, "-", i)
			must(e.Client().AppsV1().ReplicaSets("default").Create(t.Context(), replicaSet(name, 100), metav1.CreateOptions{}))(t)
			names = append(names, name)
		}
		made += 1000
		eventually(t, "1000 pods", func() error {
			return differ("pods", len(e.audit(t, createdPod)), made)
		})
		busy += time.Since(creating)
		e.kubectl(t, append([]string{"delete", "replicaset", "--wait=false"}, names...)...)
		e.empty(t, "default", "pods")
	}
	all := renewals()
	var slowest time.Duration
	for i := range all[1:] {
		slowest = max(slowest, all[i+1].Sub(all[i]))
	}
	t.Logf("%d renewals, at most %v apart, in %v; %d pods were made in %v", len(all), slowest, time.Since(begin), made, busy)
	// Every 2 s, and a renewal may take a moment; the deadline is 10 s.
	if limit := 2*time.Second + 500*time.Millisecond*slowness(t); len(all) < 4 || slowest > limit {
		t.Errorf("%d renewals, at most %v apart, want some and at most %v", len(all), slowest, limit)
	}
}

// followRenewals watches the lease and returns a function that ends that and says when it was renewed.
func (e *env) followRenewals(t *testing.T) func() []time.Time {
	t.Helper()
	changes := must(e.Client().CoordinationV1().Leases("kube-system").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=kube-controller-manager"}))(t)
	seen := make(chan []time.Time, 1)
	go func() {
		var all []time.Time
		for event := range changes.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && lease.Spec.RenewTime != nil {
				all = append(all, lease.Spec.RenewTime.Time)
			}
		}
		seen <- all
	}()
	t.Cleanup(changes.Stop)
	return func() []time.Time {
		changes.Stop()
		return <-seen
	}
}

// TestWarmStandby kills the leader of a cluster with many pods while a ReplicaSet has something to do, and measures from
// the moment that the standby has the lease: to the first reconcile of the ReplicaSet, which makes a pod.
func TestWarmStandby(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	if os.Getenv("ORRERY_ROUNDS") == "" {
		warmStandby(t, 1000, limit, append([]string{"--warm-standby"}, shortLease...)...)
		return
	}
	// A machine that makes that many pods answers late.
	t.Run("warm", func(t *testing.T) { warmStandby(t, 10000, limit, "--warm-standby") })
	t.Run("cold", func(t *testing.T) { warmStandby(t, 10000, time.Minute) })
}

func warmStandby(t *testing.T, pods int, limit time.Duration, args ...string) {
	e := start(t, cluster.Options{NoKwok: true})
	e.expect("lease", "write refused")
	leader := e.manage(t, cluster.Orrery, args...)
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		crowd := replicaSet(fmt.Sprint("crowd-", i), int32(pods/20))
		crowd.Spec.Template.Spec.SchedulerName = "nobody" // the pods of a cluster at rest are not scheduled all the time
		must(e.Client().AppsV1().ReplicaSets("default").Create(t.Context(), crowd, metav1.CreateOptions{}))(t)
	}
	eventually(t, "the pods", func() error { return differ("pods", len(e.audit(t, createdPod)), pods) })
	var all []time.Duration
	for round := range rounds(t, 1) {
		standby := e.manage(t, cluster.Orrery, args...)
		time.Sleep(3 * time.Second) // for its caches
		use := must(standby.Usage())(t)
		t.Logf("the standby uses %d MiB, %d MiB of them anonymous", use.RSS>>20, use.Anonymous>>20)
		took := e.takeOver(t, leader, standby, fmt.Sprint("crowd-", round), pods/20+1)
		if took > limit {
			t.Logf("%v; of the caches it says\n%s", took, strings.Join(linesWith(logOf(t, standby), `"Cache `), ""))
		}
		all = append(all, took)
		leader = standby
	}
	t.Logf("first pod %v after the lease was taken, with %d pods (median of %d: %v)", median(all), pods, len(all), all)
	if median(all) > limit*slowness(t) {
		t.Errorf("first pod %v after the lease was taken, want at most %v", median(all), limit)
	}
}

// takeOver scales a ReplicaSet up by one while the leader cannot see it, ends the leader, and returns how long after the
// standby has taken the lease the pod is made.
func (e *env) takeOver(t *testing.T, leader, standby *cluster.Process, set string, size int) time.Duration {
	t.Helper()
	made := len(e.audit(t, createdPod))
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "scale", "replicaset", set, fmt.Sprint("--replicas=", size))
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	var first time.Time
	within(t, patience, "a pod more", func() error {
		all := e.audit(t, createdPod)
		if len(all) <= made {
			return errors.New("none")
		}
		first = all[len(all)-1].Received
		return differ("pods", len(all), made+1)
	})
	return first.Sub(ledFrom(t, standby))
}

// linesWith returns the lines of a log that have a text in them.
func linesWith(log, text string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// ledFrom returns when a process logged that it has the lease.
func ledFrom(t *testing.T, p *cluster.Process) time.Time {
	t.Helper()
	lines := linesWith(logOf(t, p), "Successfully acquired lease")
	if len(lines) == 0 {
		t.Fatalf("%s does not lead", p.Name())
	}
	head := strings.Fields(lines[0])
	clock := must(time.ParseInLocation("0102 15:04:05.000000", head[0][1:]+" "+head[1], time.Local))(t)
	return clock.AddDate(time.Now().Year(), 0, 0)
}
