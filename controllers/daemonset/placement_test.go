package daemonset

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
)

func requires(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func label(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func named(op corev1.NodeSelectorOperator, names ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: op, Values: names}}}
}

func TestWhichNodesShouldRunAndKeepAPod(t *testing.T) {
	const in, notIn = corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
	all, keep, none := verdict{true, true}, verdict{false, true}, verdict{}
	tolerate := func(t corev1.Toleration) corev1.PodSpec { return corev1.PodSpec{Tolerations: []corev1.Toleration{t}} }
	for _, c := range []struct {
		name   string
		spec   corev1.PodSpec
		taints []corev1.Taint
		want   verdict
	}{
		{"nothing asked", corev1.PodSpec{}, nil, all},
		{"its node name", corev1.PodSpec{NodeName: "n"}, nil, all},
		{"another node name", corev1.PodSpec{NodeName: "m"}, nil, none},
		{"its label", corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}, nil, all},
		{"another label", corev1.PodSpec{NodeSelector: map[string]string{"disk": "hdd"}}, nil, none},
		{"a missing label", corev1.PodSpec{NodeSelector: map[string]string{"gpu": ""}}, nil, none},
		{"affinity in order", corev1.PodSpec{Affinity: requires(label("disk", in, "ssd", "hdd"))}, nil, all},
		{"affinity in another order", corev1.PodSpec{Affinity: requires(label("disk", in, "hdd", "ssd"))}, nil, all},
		{"affinity not met", corev1.PodSpec{Affinity: requires(label("disk", notIn, "ssd"))}, nil, none},
		{"any of several terms", corev1.PodSpec{Affinity: requires(label("disk", in, "hdd"), label("zone", in, "a"))}, nil, all},
		{"no term", corev1.PodSpec{Affinity: requires()}, nil, none},
		{"a broken term beside a good one", corev1.PodSpec{Affinity: requires(label("disk", "Gt", "x"), label("zone", in, "a"))}, nil, all},
		{"only a broken term", corev1.PodSpec{Affinity: requires(label("disk", "Near", "x"))}, nil, none},
		{"the field of its name", corev1.PodSpec{Affinity: requires(named(in, "n"))}, nil, all},
		{"the field of another name", corev1.PodSpec{Affinity: requires(named(in, "m"))}, nil, none},
		{"not the field of another name", corev1.PodSpec{Affinity: requires(named(notIn, "m"))}, nil, all},
		{"selector and affinity", corev1.PodSpec{NodeSelector: map[string]string{"disk": "hdd"}, Affinity: requires(named(in, "n"))}, nil, none},
		{"affinity to pods only", corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}}, nil, all},

		{"kept out", corev1.PodSpec{}, []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)}, keep},
		{"driven out", corev1.PodSpec{}, []corev1.Taint{taint("x", corev1.TaintEffectNoExecute)}, none},
		{"kept and driven out", corev1.PodSpec{}, []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule), taint("y", corev1.TaintEffectNoExecute)}, none},
		{"discouraged", corev1.PodSpec{}, []corev1.Taint{taint("x", corev1.TaintEffectPreferNoSchedule)}, all},
		{"tolerated", tolerate(corev1.Toleration{Key: "x", Operator: "Exists"}), []corev1.Taint{taint("x", corev1.TaintEffectNoExecute)}, all},
		{"tolerated for a time", tolerate(corev1.Toleration{Key: "x", Operator: "Exists", TolerationSeconds: new(int64(5))}), []corev1.Taint{taint("x", corev1.TaintEffectNoExecute)}, all},
		{"everything tolerated", tolerate(corev1.Toleration{Operator: "Exists"}), []corev1.Taint{taint("x", corev1.TaintEffectNoExecute)}, all},
		{"another value tolerated", tolerate(corev1.Toleration{Key: "x", Operator: "Equal", Value: "1"}), []corev1.Taint{{Key: "x", Value: "2", Effect: corev1.TaintEffectNoSchedule}}, keep},
		{"numbers compared, which is off", tolerate(corev1.Toleration{Key: "x", Operator: "Gt", Value: "1"}), []corev1.Taint{{Key: "x", Value: "0", Effect: corev1.TaintEffectNoSchedule}}, keep},
		{"not matched and driven out", corev1.PodSpec{NodeName: "m"}, []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)}, none},

		{"not ready", corev1.PodSpec{}, []corev1.Taint{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)}, all},
		{"not ready, of the other effect", corev1.PodSpec{}, []corev1.Taint{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)}, keep},
		{"unreachable", corev1.PodSpec{}, []corev1.Taint{taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)}, all},
		{"unschedulable", corev1.PodSpec{}, []corev1.Taint{taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)}, all},
		{"under pressure", corev1.PodSpec{}, []corev1.Taint{
			taint(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
			taint(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)}, all},
		{"without network", corev1.PodSpec{}, []corev1.Taint{taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)}, keep},
		{"without network, which it does not use", corev1.PodSpec{HostNetwork: true}, []corev1.Taint{taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)}, all},
	} {
		node := newNode("n", c.taints...)
		node.Labels = map[string]string{"disk": "ssd", "zone": "a"}
		if got := newPlacement(&c.spec, false).judge(node); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestTolerationsMayCompareNumbersBehindTheGate(t *testing.T) {
	spec := corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpGt, Value: "1"}}}
	node := newNode("n", corev1.Taint{Key: "x", Value: "2", Effect: corev1.TaintEffectNoExecute})
	if v := newPlacement(&spec, true).judge(node); !v.run {
		t.Errorf("%+v", v)
	}
	if v := newPlacement(&spec, false).judge(node); v.stay {
		t.Errorf("with the gate off: %+v", v)
	}
}

func TestTheUnschedulableMarkCountsOnlyAsATaint(t *testing.T) {
	node := newNode("n")
	node.Spec.Unschedulable = true
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	if v := newPlacement(&corev1.PodSpec{}, false).judge(node); !v.run || !v.stay {
		t.Errorf("%+v", v)
	}
}

func TestTheTolerationsOfDaemons(t *testing.T) {
	added := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	own := corev1.Toleration{Key: "x", Operator: corev1.TolerationOpEqual, Value: "1", Effect: corev1.TaintEffectNoSchedule}
	limited := added(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	limited.TolerationSeconds = new(int64(30))
	spec := corev1.PodSpec{HostNetwork: true, Tolerations: []corev1.Toleration{limited, own}}
	want := []corev1.Toleration{
		added("node.kubernetes.io/unreachable", "NoExecute"), own, added("node.kubernetes.io/not-ready", "NoExecute"),
		added("node.kubernetes.io/disk-pressure", "NoSchedule"), added("node.kubernetes.io/memory-pressure", "NoSchedule"),
		added("node.kubernetes.io/pid-pressure", "NoSchedule"), added("node.kubernetes.io/unschedulable", "NoSchedule"),
		added("node.kubernetes.io/network-unavailable", "NoSchedule"),
	}
	if got := tolerationsOf(&spec); !slices.Equal(got, want) {
		t.Errorf("tolerations\n%+v, want\n%+v", got, want)
	}
	if spec.Tolerations[0].TolerationSeconds == nil {
		t.Error("the template was changed")
	}
	spec.HostNetwork = false
	if got := tolerationsOf(&spec); !slices.Equal(got, want[:len(want)-1]) {
		t.Errorf("without the host's network: %+v", got)
	}
}

func TestAPlacementIsMadeOncePerGeneration(t *testing.T) {
	var p placements
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "1", Generation: 1}}
	first := p.of(set)
	if p.of(set) != first {
		t.Error("made twice for one generation")
	}
	next := set.DeepCopy()
	next.Generation, next.Spec.Template.Spec.NodeName = 2, "n"
	if got := p.of(next); got == first || got.nodeName != "n" {
		t.Error("not made again for the next generation")
	}
	other := set.DeepCopy()
	other.UID, other.Generation, other.Spec.Template.Spec.NodeName = "2", 2, "m"
	if got := p.of(other); got.nodeName != "m" {
		t.Error("not made again for another DaemonSet of the same name")
	}
	p.forget(kit.KeyOf(set))
	if len(p.byKey) != 0 {
		t.Error("not forgotten")
	}
}
