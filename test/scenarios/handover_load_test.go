package scenarios

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// TestHandOverUnderLoad has kube-controller-manager and the daemon on one lease, which goes from the one to the other and
// back while a Deployment is rolled again and again and Jobs are started all the time. Nothing is lost, and no Job's pod
// is made twice.
func TestHandOverUnderLoad(t *testing.T) {
	t.Parallel()
	args := append(append([]string{"-v=2"}, raised...), shortLease...)
	e := start(t, cluster.Options{Nodes: 3, Untaint: true, ControllerManager: cluster.Upstream, CMArgs: args})
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	e.expect("Failed to update lease") // two may want it at once
	s := &jobStage{e, e.namespace(t, "load")}
	must(e.Client().AppsV1().Deployments(s.ns).Create(t.Context(), deployment("web", 10), metav1.CreateOptions{}))(t)
	stop := s.load(t)
	s.busy(t, 3)
	for _, next := range []cluster.ManagerKind{cluster.Orrery, cluster.Upstream} {
		leads := e.orrery()
		e.manage(t, next, append(raised, shortLease...)...)
		// Unlike stopManager, this waits for nothing, and leaves the lease as it is.
		if err := leads.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		exited(t, leads, patience)
		s.busy(t, 3)
	}
	jobs, rolls := stop()
	eventually(t, "the last roll ends", func() error { return e.rolledOut(t, s.ns, "web", 10) })
	eventually(t, "all Jobs end", func() error {
		done := 0
		for _, j := range must(e.Client().BatchV1().Jobs(s.ns).List(t.Context(), metav1.ListOptions{}))(t).Items {
			if j.Status.CompletionTime != nil && j.Status.Succeeded == 2 {
				done++
			}
		}
		return differ("finished Jobs", done, jobs)
	})
	made := map[string]int{}
	for _, p := range must(e.Client().CoreV1().Pods(s.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name"}))(t).Items {
		made[p.Labels["job-name"]]++
	}
	for name, n := range made {
		if n != 2 {
			t.Errorf("%s has %d pods, want two", name, n)
		}
	}
	if len(made) != jobs {
		t.Errorf("%d of %d Jobs have pods", len(made), jobs)
	}
	// A template that was replaced while there was no leader has no ReplicaSet; ten old ones are kept.
	sets := len(must(e.Client().AppsV1().ReplicaSets(s.ns).List(t.Context(), metav1.ListOptions{}))(t).Items)
	if most := min(rolls+1, 11); sets < 2 || sets > most {
		t.Errorf("%d ReplicaSets after %d rolls, want two to %d", sets, rolls, most)
	}
	t.Logf("%d Jobs and %d rolls", jobs, rolls)
}

// load starts Jobs and rolls out the Deployment until the returned function is called, which returns how many there were.
func (s *jobStage) load(t *testing.T) (stop func() (jobs, rolls int)) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var jobs, rolls int
	stop = func() (int, int) {
		cancel()
		<-ended
		return jobs, rolls
	}
	t.Cleanup(func() { stop() })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			s.run(t, fmt.Sprint("job-", jobs), brief, sized(2, 2))
			if jobs++; jobs%10 == 0 {
				rolls++
				patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"roll":"%d"}}}}}`, rolls)
				if _, err := s.Client().AppsV1().Deployments(s.ns).Patch(t.Context(), "web", "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return stop
}

// busy returns once n more Jobs have ended.
func (s *jobStage) busy(t *testing.T, n int) {
	t.Helper()
	count := func() (done int) {
		for _, j := range must(s.Client().BatchV1().Jobs(s.ns).List(t.Context(), metav1.ListOptions{}))(t).Items {
			if j.Status.CompletionTime != nil {
				done++
			}
		}
		return done
	}
	before := count()
	eventually(t, "Jobs end", func() error {
		if now := count(); now < before+n {
			return errors.New(fmt.Sprint(now-before, " have"))
		}
		return nil
	})
}
