package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"orrery/hack/localcluster/cluster"
)

const namespace = "faults"

// driver changes workloads as users do. Failed calls are ignored: the API server may be down.
type driver struct {
	c       *cluster.Cluster
	api     kubernetes.Interface
	any     dynamic.Interface
	rand    *rand.Rand
	has     func(controller string) bool // whether the manager runs it
	actions []action
	jobs    int
	decided map[types.UID]bool // pods whose end is decided
	done    int                // changes made
	remote  []*remoteNode
	only    string // controllers whose workloads are made, with commas between them; empty for all
	placed  int    // pods made on remote nodes
	touches int    // nodes
}

// action is one kind of change.
type action struct {
	every time.Duration
	next  time.Time
	run   func(context.Context) error
}

func newDriver(c *cluster.Cluster, any dynamic.Interface, r *rand.Rand, has func(string) bool) *driver {
	return &driver{c: c, api: c.Client(), any: any, rand: r, has: has, decided: map[types.UID]bool{}}
}

// prepare creates the workloads that exist for the whole run, and collects the actions.
func (d *driver) prepare(ctx context.Context) error {
	if err := d.makeNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := defineWidgets(ctx, d.any); err != nil {
		return err
	}
	for name, add := range map[string]func(context.Context) error{
		"deployment-controller": d.deployments, "statefulset-controller": d.statefulSets, "daemonset-controller": d.daemonSets,
		"job-controller": d.manyJobs, "cronjob-controller": d.cronJobs, "disruption-controller": d.budgets,
		"garbage-collector-controller": d.owners, "namespace-controller": d.namespaces,
		"endpointslice-controller": d.services, "node-lifecycle-controller": d.remoteNodes,
	} {
		if d.only != "" && !slices.Contains(strings.Split(d.only, ","), name) {
			continue
		}
		if !d.has(name) {
			say("without %s: its workloads are left out", name)
			continue
		}
		if err := add(ctx); err != nil {
			return fmt.Errorf("make workloads of %s: %w", name, err)
		}
	}
	return nil
}

// play carries out actions until ctx ends.
func (d *driver) play(ctx context.Context) {
	for sleep(ctx, 50*time.Millisecond) {
		for i := range d.actions {
			a := &d.actions[i]
			if time.Now().Before(a.next) {
				continue
			}
			a.next = time.Now().Add(a.every/2 + time.Duration(d.rand.Int64N(int64(a.every))))
			call, cancel := context.WithTimeout(ctx, 5*time.Second)
			if a.run(call) == nil {
				d.done++
			}
			cancel()
		}
	}
}

// often adds an action that is carried out about once per period.
func (d *driver) often(every time.Duration, run func(context.Context) error) {
	d.actions = append(d.actions, action{every: every, run: run})
}

// patch changes one of the objects with a merge patch.
func (d *driver) patch(kind string, names []string, patch func() string) func(context.Context) error {
	return func(ctx context.Context) error {
		name, data := names[d.rand.IntN(len(names))], []byte(patch())
		var err error
		switch kind {
		case "deployments":
			_, err = d.api.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
		case "statefulsets":
			_, err = d.api.AppsV1().StatefulSets(namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
		case "daemonsets":
			_, err = d.api.AppsV1().DaemonSets(namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
		}
		return err
	}
}

// version is a patch that rolls out one of a few versions, so that rollbacks occur.
func (d *driver) version() string {
	return fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{"version":"v%d"}}}}}`, d.rand.IntN(6))
}

// size returns a patch that scales.
func (d *driver) size(low, high int) func() string {
	return func() string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, low+d.rand.IntN(high-low+1)) }
}

func (d *driver) deployments(ctx context.Context) error {
	rolled := []string{"surging", "saving", "mixed", "scaled", "recreated"}
	for _, o := range []*appsv1.Deployment{
		newDeployment("surging", 6, "2", "0"), newDeployment("saving", 5, "0", "2"), newDeployment("mixed", 8, "25%", "25%"),
		newDeployment("scaled", 5, "1", "1"), newDeployment("recreated", 3, "", ""), newDeployment("guarded", 6, "", ""),
	} {
		if _, err := d.api.AppsV1().Deployments(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	d.often(1500*time.Millisecond, d.patch("deployments", rolled, d.version))
	d.often(4*time.Second, d.patch("deployments", []string{"scaled"}, d.size(0, 9)))
	return nil
}

func (d *driver) statefulSets(ctx context.Context) error {
	for _, o := range []*appsv1.StatefulSet{newStatefulSet("ordered", 4, appsv1.OrderedReadyPodManagement), newStatefulSet("parallel", 5, appsv1.ParallelPodManagement)} {
		if _, err := d.api.AppsV1().StatefulSets(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	both := []string{"ordered", "parallel"}
	d.often(8*time.Second, d.patch("statefulsets", both, d.version))
	d.often(10*time.Second, d.patch("statefulsets", both, d.size(2, 6)))
	return nil
}

func (d *driver) daemonSets(ctx context.Context) error {
	for _, o := range []*appsv1.DaemonSet{newDaemonSet("each", "0", "1"), newDaemonSet("double", "1", "0"), newDaemonSet("half", "0", "50%")} {
		if _, err := d.api.AppsV1().DaemonSets(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	d.often(5*time.Second, d.patch("daemonsets", []string{"each", "double", "half"}, d.version))
	return nil
}

func (d *driver) budgets(ctx context.Context) error {
	for _, b := range []*policyv1.PodDisruptionBudget{
		newBudget("surging", "min", "4"), newBudget("mixed", "max", "30%"), newBudget("scaled", "min", "50%"),
		newBudget("ordered", "max", "1"), onlyEvictions(newBudget("guarded", "min", "4")),
	} {
		if _, err := d.api.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, b, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	d.often(300*time.Millisecond, func(ctx context.Context) error {
		pods, err := d.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=guarded"})
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		p := pods.Items[d.rand.IntN(len(pods.Items))]
		return d.api.CoreV1().Pods(namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.Name}})
	})
	return nil
}

// manyJobs creates Jobs, up to a limit of running ones, and makes some of their pods fail.
func (d *driver) manyJobs(context.Context) error {
	d.often(2*time.Second, func(ctx context.Context) error {
		list, err := d.api.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := slices.DeleteFunc(list.Items, func(j batchv1.Job) bool { return j.Status.CompletionTime != nil || len(j.Status.Conditions) > 0 })
		if len(running) > 15 {
			return nil
		}
		d.jobs++
		_, err = d.api.BatchV1().Jobs(namespace).Create(ctx, randomJob(d.rand, d.jobs), metav1.CreateOptions{})
		return err
	})
	d.often(200*time.Millisecond, d.decidePods)
	return nil
}

// decidePods makes some of the pending pods of Jobs fail. The patch is bound to the resourceVersion: a pod that has
// succeeded in the meantime must not fail.
func (d *driver) decidePods(ctx context.Context) error {
	pods, err := d.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=work", FieldSelector: "status.phase=Pending"})
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		if d.decided[p.UID] {
			continue
		}
		d.decided[p.UID] = true
		if d.rand.IntN(6) > 0 {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:"1"}}}`, p.ResourceVersion, exitCode)
		if _, err := d.api.CoreV1().Pods(namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func (d *driver) cronJobs(ctx context.Context) error {
	const minutely = "* * * * *"
	for _, o := range []*batchv1.CronJob{
		newCronJob("quick", minutely, batchv1.AllowConcurrent, "200ms", 0), newCronJob("kept", minutely, batchv1.AllowConcurrent, "1s", 3),
		newCronJob("gone", minutely, batchv1.AllowConcurrent, "200ms", 3), newCronJob("seldom", "*/2 * * * *", batchv1.ForbidConcurrent, "1s", 0),
		newCronJob("alone", minutely, batchv1.ForbidConcurrent, "70s", 1), newCronJob("forbid", minutely, batchv1.ForbidConcurrent, "500ms", 0),
		newCronJob("replaced", minutely, batchv1.ReplaceConcurrent, longest.String(), 1), newCronJob("replace", minutely, batchv1.ReplaceConcurrent, "1s", 0),
		newCronJob("dense", "@every 2s", batchv1.AllowConcurrent, "200ms", 2), newCronJob("steady", "@every 13s", batchv1.ForbidConcurrent, "30s", 1),
	} {
		if o.Name == "gone" || o.Name == "forbid" {
			o.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = new(int32(0))
		}
		if _, err := d.api.BatchV1().CronJobs(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if !d.has("job-controller") {
		d.often(300*time.Millisecond, d.endJobs)
	}
	return nil
}

// endJobs stands in for the Job controller if the manager does not run it: it completes Jobs after their duration.
func (d *driver) endJobs(ctx context.Context) error {
	list, err := d.api.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, j := range list.Items {
		runs, err := time.ParseDuration(j.Labels["runs"])
		if err != nil || len(j.Status.Conditions) > 0 || time.Since(j.CreationTimestamp.Time) < runs {
			continue
		}
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		j.Status.StartTime, j.Status.CompletionTime = &j.CreationTimestamp, &now
		for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now})
		}
		if _, err := d.api.BatchV1().Jobs(namespace).UpdateStatus(ctx, &j, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// finish prepares for everything to settle: it suspends CronJobs, and deletes those whose Jobs run for long.
func (d *driver) finish(ctx context.Context) error {
	list, err := d.api.BatchV1().CronJobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list CronJobs: %w", err)
	}
	for _, cj := range list.Items {
		if runs, err := time.ParseDuration(cj.Spec.JobTemplate.Labels["runs"]); err == nil && runs > time.Second {
			if err := d.api.BatchV1().CronJobs(namespace).Delete(ctx, cj.Name, metav1.DeleteOptions{}); err != nil {
				return fmt.Errorf("delete CronJob: %w", err)
			}
			continue
		}
		if _, err := d.api.BatchV1().CronJobs(namespace).Patch(ctx, cj.Name, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("suspend CronJob: %w", err)
		}
	}
	return errors.Join(d.allReady(ctx), d.lastNodes(ctx))
}
