package admission

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"orrery/api/nodes/v1alpha1"
)

// pool reads a pool from the YAML of its spec.
func pool(t *testing.T, name, text string) *v1alpha1.NodePool {
	t.Helper()
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDefaultsFillInWhatIsNotSet(t *testing.T) {
	p := pool(t, "gpu", `{taints: [{key: a, effect: NoSchedule}, {key: b, effect: NoSchedule, propagation: OnJoin}], runtimeClass: {handler: x}}`)
	Default(p)
	want := pool(t, "gpu", `{nodeSelector: {matchLabels: {node-role.kubernetes.io/gpu: ""}}, existingKeys: Adopt, deletionPolicy: Revert, mode: Enforce, rollout: {noExecuteMaxUpdating: 1},
	  taints: [{key: a, effect: NoSchedule, propagation: Always}, {key: b, effect: NoSchedule, propagation: OnJoin}], runtimeClass: {handler: x, name: node-pool-gpu}}`)
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v", p.Spec)
	}
	again := p.DeepCopy()
	if Default(again); !reflect.DeepEqual(again, p) {
		t.Errorf("a second time changes %+v to %+v", p.Spec, again.Spec)
	}
	set := pool(t, "gpu", `{nodeSelector: {}, existingKeys: Skip, deletionPolicy: Retain, mode: Audit, rollout: {noExecuteMaxUpdating: 7}, runtimeClass: {handler: x, name: mine}}`)
	before := set.DeepCopy()
	if Default(set); !reflect.DeepEqual(set, before) {
		t.Errorf("what is set is changed to %+v", set.Spec)
	}
	unnamed := pool(t, "", `{runtimeClass: {handler: x}}`)
	if Default(unnamed); unnamed.Spec.NodeSelector != nil || unnamed.Spec.RuntimeClass.Name != "" {
		t.Errorf("a pool without a name yet gets %+v", unnamed.Spec)
	}
}

func TestValidation(t *testing.T) {
	world := World{
		NodeLabels: slices.Values([]map[string]string{{"a": "1", "b": "1"}, {"c": "1"}}),
		RuntimeClassOwner: func(name string) (types.UID, bool) {
			return map[string]types.UID{"mine": "uid-of-p", "others": "uid-of-other", "nobodys": ""}[name], name == "mine" || name == "others" || name == "nobodys"
		},
		Pools: []*v1alpha1.NodePool{
			pool(t, "p", `{labels: {team: old}}`),
			pool(t, "peer", `{nodeSelector: {matchLabels: {b: "1"}}, labels: {team: peer, same: x}, taints: [{key: t, value: peer, effect: NoSchedule}], runtimeClass: {handler: x, name: of-peer}}`),
		},
	}
	for name, tc := range map[string]struct{ old, spec, want string }{
		"nothing":                        {spec: `{}`},
		"all that is allowed":            {spec: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {x/y: z, node-restriction.kubernetes.io/z: a}, nodeRole: fast, rollout: {maxUpdating: 5}, runtimeClass: {handler: x, name: mine}}`},
		"an empty selector":              {spec: `{nodeSelector: {}}`, want: `spec.nodeSelector: Invalid value: "{}": must not be empty`},
		"an operator that is none":       {spec: `{nodeSelector: {matchExpressions: [{key: a, operator: Like}]}}`, want: `spec.nodeSelector.matchExpressions[0].operator`},
		"a selector on a written label":  {spec: `{nodeSelector: {matchLabels: {a: b}}, labels: {a: b}}`, want: `spec.nodeSelector.matchLabels[a]`},
		"and by an expression":           {spec: `{nodeSelector: {matchExpressions: [{key: a, operator: Exists}]}, labels: {a: b}}`, want: `spec.nodeSelector.matchExpressions[0].key`},
		"and on the role":                {spec: `{nodeSelector: {matchLabels: {node-role.kubernetes.io/r: ""}}, nodeRole: r}`, want: `spec.nodeSelector.matchLabels[node-role.kubernetes.io/r]`},
		"the default selector's role":    {spec: `{nodeRole: p}`, want: `spec.nodeRole`},
		"the control plane's role":       {spec: `{nodeRole: control-plane}`, want: `spec.nodeRole: Forbidden`},
		"a label of the cluster":         {spec: `{labels: {topology.kubernetes.io/zone: a}}`, want: `spec.labels[topology.kubernetes.io/zone]: Forbidden`},
		"a role as a label":              {spec: `{labels: {node-role.kubernetes.io/x: ""}}`, want: `use spec.nodeRole`},
		"a label of ours":                {spec: `{annotations: {nodes.orrery.dev/pools: ""}}`, want: `spec.annotations[nodes.orrery.dev/pools]: Forbidden`},
		"a label value":                  {spec: `{labels: {a: "b c"}}`, want: `spec.labels[a]: Invalid value`},
		"a key that is none":             {spec: `{annotations: {"a b": x}}`, want: `spec.annotations[a b]: Invalid value`},
		"a taint of the cluster":         {spec: `{taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}`, want: `spec.taints[0].key: Forbidden`},
		"a taint twice":                  {spec: `{taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule, value: x}]}`, want: `spec.taints[1]: Duplicate value: "a:NoSchedule"`},
		"an effect that is none":         {spec: `{taints: [{key: a, effect: Never}]}`, want: `spec.taints[0].effect: Unsupported value: "Never"`},
		"a share of more than all":       {spec: `{rollout: {maxUpdating: "101%"}}`, want: `spec.rollout.maxUpdating`},
		"a class by expressions":         {spec: `{nodeSelector: {matchExpressions: [{key: q, operator: Exists}]}, runtimeClass: {handler: x}}`, want: `use matchLabels`},
		"a class of another pool":        {spec: `{runtimeClass: {handler: x, name: of-peer}}`, want: `is the RuntimeClass of NodePool peer`},
		"a class in use":                 {spec: `{runtimeClass: {handler: x, name: others}}`, want: `spec.runtimeClass.name: Invalid value: "others": is in use`},
		"a class of nobody":              {spec: `{runtimeClass: {handler: x, name: nobodys}}`, want: `is in use`},
		"another name for a class":       {old: `{runtimeClass: {handler: x, name: mine}}`, spec: `{runtimeClass: {handler: x}}`, want: `spec.runtimeClass.name: Invalid value: "node-pool-p": is immutable`},
		"another handler":                {old: `{runtimeClass: {handler: x}}`, spec: `{runtimeClass: {handler: z, name: node-pool-p}}`, want: `spec.runtimeClass.handler: Invalid value: "z": is immutable`},
		"a class first removed":          {old: `{}`, spec: `{runtimeClass: {handler: z}}`},
		"a clash on a node":              {spec: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p, same: x}}`, want: `spec.labels[team]: Invalid value: "p": NodePool peer sets it to "peer" on nodes of both`},
		"a clash of taints":              {spec: `{nodeSelector: {matchLabels: {a: "1"}}, taints: [{key: t, effect: NoSchedule}]}`, want: `spec.taints[0].value`},
		"a clash by selector":            {spec: `{nodeSelector: {matchLabels: {b: "1"}}, labels: {team: p}}`, want: `spec.labels[team]`},
		"no clash where they never meet": {spec: `{nodeSelector: {matchLabels: {c: "1"}}, labels: {team: p}}`},
		"no clash by priority":           {spec: `{priority: 1, nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p}}`},
		"a clash from before":            {old: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p}}`, spec: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p}, paused: true}`},
		"another value of it":            {old: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p}}`, spec: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {team: q}}`, want: `spec.labels[team]`},
		"a clash by a new selector":      {old: `{nodeSelector: {matchLabels: {c: "1"}}, labels: {team: p}}`, spec: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p}}`, want: `spec.labels[team]`},
		"a clash by a new priority":      {old: `{priority: 1, nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p}}`, spec: `{nodeSelector: {matchLabels: {a: "1"}}, labels: {team: p}}`, want: `spec.labels[team]`},
		"no clash of a taint on join":    {spec: `{nodeSelector: {matchLabels: {a: "1"}}, taints: [{key: t, effect: NoSchedule, propagation: OnJoin}]}`},
	} {
		var old *v1alpha1.NodePool
		if tc.old != "" {
			old = pool(t, "p", tc.old)
		}
		p := pool(t, "p", tc.spec)
		errs := Validate(old, p, world)
		switch {
		case tc.want == "" && len(errs) > 0:
			t.Errorf("%s: %v", name, errs)
		case tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want)):
			t.Errorf("%s: %v, want one error with %q", name, errs, tc.want)
		}
		// What is in the cluster already may have its finalizers and metadata written, and be deleted.
		if errs := Validate(p, p.DeepCopy(), world); len(errs) > 0 {
			t.Errorf("%s: an update that changes nothing is refused: %v", name, errs)
		}
		now := metav1.Now()
		p.DeletionTimestamp = &now
		if errs := Validate(old, p, world); len(errs) > 0 {
			t.Errorf("%s: an update while it is being deleted is refused: %v", name, errs)
		}
	}
	for bad, name := range map[string]string{"a.b": "a.b", "too long": strings.Repeat("x", 64)} {
		if errs := Validate(nil, pool(t, name, `{}`), World{}); len(errs) != 1 || errs[0].Field != "metadata.name" {
			t.Errorf("%s: %v", bad, errs)
		}
	}
	zero := intstr.FromInt32(0)
	p := pool(t, "p", `{rollout: {noExecuteMaxUpdating: 0, intervalSeconds: 4000}}`)
	p.Spec.Rollout.MaxUpdating = &zero
	if errs := Validate(nil, p, World{}); len(errs) != 3 {
		t.Errorf("a rollout of nothing: %v", errs)
	}
}

func TestWarnings(t *testing.T) {
	nodes := slices.Values([]map[string]string{{"a": "1", "all": ""}, {"node-role.kubernetes.io/control-plane": "", "all": "", "b": ""}})
	for name, tc := range map[string]struct{ old, spec, want string }{
		"nothing to warn of":      {spec: `{nodeSelector: {matchLabels: {a: "1"}}, taints: [{key: x, effect: NoSchedule}]}`},
		"pods are driven off":     {spec: `{nodeSelector: {matchLabels: {a: "1"}}, taints: [{key: x, effect: NoExecute}]}`, want: `spec.taints[0]: x:NoExecute drives`},
		"once":                    {old: `{nodeSelector: {matchLabels: {a: "1"}}, taints: [{key: x, effect: NoExecute}]}`, spec: `{nodeSelector: {matchLabels: {a: "1"}}, taints: [{key: x, value: y, effect: NoExecute}]}`},
		"no node":                 {spec: `{nodeSelector: {matchLabels: {a: "2"}}}`, want: `matches no node`},
		"all nodes":               {spec: `{nodeSelector: {matchLabels: {all: ""}}}`, want: `matches all 2 nodes|matches 1 control-plane nodes`},
		"control-plane nodes":     {spec: `{nodeSelector: {matchLabels: {b: ""}}}`, want: `matches 1 control-plane nodes`},
		"not for what is not new": {old: `{nodeSelector: {matchLabels: {all: ""}}}`, spec: `{nodeSelector: {matchLabels: {all: ""}}, labels: {x: y}}`},
		"a selector that is none": {spec: `{nodeSelector: {matchExpressions: [{key: a, operator: Like}]}}`},
	} {
		var old *v1alpha1.NodePool
		if tc.old != "" {
			old = pool(t, "p", tc.old)
		}
		p := pool(t, "p", tc.spec)
		got := Warnings(old, p, World{NodeLabels: nodes})
		var want []string
		if tc.want != "" {
			want = strings.Split(tc.want, "|")
		}
		if !slices.EqualFunc(got, want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		now := metav1.Now()
		if p.DeletionTimestamp = &now; len(Warnings(old, p, World{NodeLabels: nodes})) != 0 {
			t.Errorf("%s: a warning while it is being deleted", name)
		}
	}
}
