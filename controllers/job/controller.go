package job

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// Name of the controller.
const Name = "job-controller"

const (
	mutableScheduling = featuregate.Feature("MutableSchedulingDirectivesForSuspendedJobs")
	staleConsistency  = featuregate.Feature("StaleControllerConsistencyJob")
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"job"}, ServiceAccount: "job-controller", EventSource: "job-controller",
		Summary:  "runs the pods of Jobs to completion and counts them",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"batch"}, Resources: []string{"jobs/status"}, Verbs: []string{"update"}},
			{APIGroups: []string{"batch"}, Resources: []string{"jobs/finalizers"}, Verbs: []string{"update"}}, // blocks deletion of the owner
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "create", "delete", "patch"}},
			{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		},
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-job-syncs", o.workers,
		"Number of Jobs handled at once. A larger number reacts sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-job-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	m := newMetrics()
	if cc.Register != nil {
		m.publish(cc.Register)
	}
	r := &reconciler{
		bySelector: jobsBySelector(), byController: index.ByController[*corev1.Pod](), unsettled: index.UnsettledPodsByJob(), orphans: index.Orphans[*corev1.Pod](),
		control: podctl.Control{Client: cc.Client, Recorder: cc.Recorder}, client: cc.Client, live: cc.Live, recorder: cc.Recorder,
		memory: newMemory(), metrics: m, log: cc.Log,
		clearsStartTime: cc.Gates.Enabled(mutableScheduling),
	}
	r.jobs = kit.Store(cc, r.bySelector)
	r.pods = kit.Store(cc, r.byController, r.unsettled, r.orphans)
	r.namespaces = kit.Store[corev1.Namespace](cc)
	b := kit.NewController(cc, r).
		Watch(
			kit.For(m.watched, urgent),
			kit.For(statusOnly).Delayed(statusPeriod).Named("job status"),
			kit.Owns[corev1.Pod, batchv1.Job](matters).Delayed(podPeriod),
			kit.WatchChanges(r.wantingOrphan).Named("orphan pods"),
			kit.WatchChanges(r.closed).Named("deleted namespaces"),
		).
		Queue("job").Workers(int(o.workers))
	if cc.Gates.Enabled(staleConsistency) {
		b = b.OnSkip(m.skips.Add)
	}
	orphans := kit.NewController(cc, kit.Func[stray](r.reconcileStray)).Loop("orphan-pods").
		Watch(
			kit.WatchChanges(r.strayed).Named("pods"),
			kit.WatchChanges(gone).Named("deleted jobs"),
			kit.WatchChanges(leaving).Delayed(statusPeriod).Named("finished jobs"),
		).
		Queue("job_orphan_pod").Workers(int(o.workers))
	return true, errors.Join(b.Complete(), orphans.Complete())
}
