package disruption

import (
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/controllers/internal/roster"
	"orrery/kit"
)

// Name of the controller.
const Name = "disruption-controller"

// fetchers is how many scales are read at once.
const fetchers = 4

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 1}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"disruption"}, ServiceAccount: "disruption-controller", EventSource: "controllermanager",
		Summary:  "computes how many pods each PodDisruptionBudget allows to be evicted",
		AddFlags: o.addFlags, Validate: o.validate, RBAC: rules(), Init: o.init,
	}
}

func rules() []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets", "statefulsets"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"replicationcontrollers"}, Verbs: read},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: read},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{"*"}, Resources: []string{"*/scale"}, Verbs: []string{"get"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-disruption-syncs", o.workers,
		"Number of PodDisruptionBudgets brought up to date at once. A larger number follows pods sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-disruption-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	budgets, pods := kit.Store[policyv1.PodDisruptionBudget](cc), kit.Store[corev1.Pod](cc)
	again, recheck, fetch := kit.NewTrigger[kit.Key](), kit.NewTrigger[kit.Key](), kit.NewTrigger[owner]()
	r := &reconciler{
		client: cc.Client, recorder: cc.Recorder,
		budget:  budgets.Get,
		roster:  roster.New(roster.Cache{Pod: pods.Get, Pods: pods.List, Selections: selections(budgets)}),
		owners:  newOwners(cc),
		scales:  newScales(),
		fetch:   fetch.Add,
		recheck: recheck.AddAfter,
	}
	w := &watches{roster: r.roster, recorder: cc.Recorder, later: again.AddAfter}
	err := kit.NewController(cc, r).
		Watch(
			kit.For[policyv1.PodDisruptionBudget](),
			kit.WatchChanges(w.podChanged),
			kit.WatchChanges(w.deploymentResized), kit.WatchChanges(w.replicaSetResized),
			kit.WatchChanges(w.statefulSetResized), kit.WatchChanges(w.replicationControllerResized),
			again.Source(),
		).
		Queue("disruption").Workers(int(o.workers)).Complete()
	if err != nil {
		return false, err
	}
	return true, o.initLoops(cc, r.scales, again, recheck, fetch)
}

// initLoops builds the loops beside the main one: delayed rechecks of budgets that wait for evicted pods, reads of scales,
// and the clearing of stale conditions on pods that were not evicted after all.
func (o *options) initLoops(cc kit.ControllerContext, known *scales, again, recheck *kit.Trigger[kit.Key], fetch *kit.Trigger[owner]) error {
	pods := kit.Store[corev1.Pod](cc)
	err := kit.NewController(cc, requeueDue(again.Add)).
		Loop("recheck").Queue("disruption_recheck").Watch(recheck.Source()).Complete()
	if err != nil {
		return err
	}
	f := newFetcher(cc, known, again.Add)
	err = kit.NewController(cc, kit.Func[owner](f.Reconcile)).
		Loop("scale").Queue("disruption_scale").Watch(fetch.Source()).Workers(fetchers).Complete()
	if err != nil {
		return err
	}
	return kit.NewController(cc, kit.Objects(pods, &staleConditions{client: cc.Client})).
		Loop("stale-condition").Queue("stale_pod_disruption").Watch(kit.For(marked)).Complete()
}
