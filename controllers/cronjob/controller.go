package cronjob

import (
	"fmt"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/controllers/internal/index"
	"orrery/kit"
)

// Name of the controller.
const Name = "cronjob-controller"

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"cronjob"}, ServiceAccount: "cronjob-controller", EventSource: "cronjob-controller",
		Summary:  "starts Jobs on the schedules of CronJobs, and deletes old finished ones",
		AddFlags: o.addFlags, Validate: o.validate, RBAC: rules(), Init: o.init,
	}
}

func rules() []rbacv1.PolicyRule {
	batch := []string{"batch"}
	return []rbacv1.PolicyRule{
		{APIGroups: batch, Resources: []string{"cronjobs"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: batch, Resources: []string{"cronjobs/status", "cronjobs/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: batch, Resources: []string{"jobs"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-cron-job-syncs", o.workers,
		"Number of CronJobs reconciled at once. A larger number starts Jobs sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-cron-job-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	cronJobs, jobs := kit.Store[batchv1.CronJob](cc), kit.Store(cc, index.ByController[*batchv1.Job]())
	r := &reconciler{api: newAPI(cc, jobs), recorder: cc.Recorder, metrics: newMetrics(), unrecorded: newUnrecordedSlots()}
	if cc.Register != nil {
		cc.Register(r.metrics.skew)
	}
	again := kit.NewTrigger[kit.Key]()
	w := &watches{cronJobs: cronJobs, unrecorded: r.unrecorded, recorder: cc.Recorder, later: again.AddAfter}
	err := kit.NewController(cc, kit.Objects(cronJobs, r)).
		Watch(
			kit.For(w.atOnce),
			kit.WatchChanges[batchv1.CronJob](w.rescheduled).Named("schedules"),
			kit.Owns[batchv1.Job, batchv1.CronJob](),
			kit.WatchChanges[batchv1.Job](w.deleted).Named("deleted Jobs"),
			again.Source(),
		).
		Queue("cronjob").Workers(int(o.workers)).Complete()
	if err != nil {
		return false, err
	}
	c := newClock(func() {
		for _, cj := range cronJobs.List("") {
			again.Add(kit.KeyOf(cj))
		}
	})
	return true, kit.NewController(cc, kit.Func[string](c.check)).Loop("clock").
		Watch(kit.Every(clockPeriod, "clock")).Queue("cronjob_clock").Workers(1).Complete()
}
