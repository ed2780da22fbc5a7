package admission

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"orrery/api/nodes/v1alpha1"
)

// FuzzAdmission feeds arbitrary objects, before and after. Defaults settle at once; mistakes name a field; and what
// passes selects something and writes no key of the cluster's.
func FuzzAdmission(f *testing.F) {
	for _, seed := range [][2]string{
		{"", `{}`},
		{"", `{"metadata":{"name":"p"},"spec":{"nodeSelector":{},"labels":{"a":"b"}}}`},
		{"", `{"metadata":{"name":"p"},"spec":{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"In"}]}}}`},
		{`{"metadata":{"name":"p"},"spec":{"runtimeClass":{"handler":"x"}}}`, `{"metadata":{"name":"p"},"spec":{"runtimeClass":{"name":"y","handler":"z"}}}`},
		{"", `{"metadata":{"name":"p"},"spec":{"labels":{"x.kubernetes.io/a":"b","kubernetes.io":"c","k8s.io/":"d","/":"e"}}}`},
		{"", `{"metadata":{"name":"p"},"spec":{"taints":[{"key":"a","effect":"NoExecute"},{"key":"node.kubernetes.io/not-ready","effect":""}]}}`},
		{"", `{"metadata":{"name":"p","deletionTimestamp":"2000-01-01T00:00:00Z"},"spec":{"nodeRole":"master"}}`},
		{"", `{"metadata":{"name":"p"},"spec":{"nodeRole":"x","rollout":{"maxUpdating":"0%","noExecuteMaxUpdating":-1,"intervalSeconds":9999}}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	peers := []*v1alpha1.NodePool{{}, {}}
	peers[0].Name, peers[1].Name = "p", "peer"
	peers[1].Spec = v1alpha1.NodePoolSpec{Labels: map[string]v1alpha1.LabelValue{"a": "peer"}, RuntimeClass: &v1alpha1.RuntimeClass{Name: "x"}}
	w := World{
		Pools: peers, NodeLabels: slices.Values([]map[string]string{nil, {"a": "1", controlPlane: ""}}),
		RuntimeClassOwner: func(name string) (types.UID, bool) { return types.UID(name), name == "x" },
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		var old *v1alpha1.NodePool
		if before != "" {
			old = new(v1alpha1.NodePool)
			if json.Unmarshal([]byte(before), old) != nil {
				t.Skip("the API server lets through what fits the schema")
			}
		}
		p := new(v1alpha1.NodePool)
		if json.Unmarshal([]byte(after), p) != nil {
			t.Skip("the API server lets through what fits the schema")
		}
		Default(p)
		again := p.DeepCopy()
		if Default(again); !reflect.DeepEqual(again, p) {
			t.Errorf("defaults of %+v make %+v", p.Spec, again.Spec)
		}
		_ = Warnings(old, p, w)
		errs := Validate(old, p, w)
		for _, err := range errs {
			if !strings.HasPrefix(err.Field, "spec.") && err.Field != "metadata.name" {
				t.Errorf("%v names no field", err)
			}
		}
		if len(errs) == 0 && old == nil && p.DeletionTimestamp == nil {
			checkHarmless(t, p)
		}
	})
}

// checkHarmless looks at a pool that was let in.
func checkHarmless(t *testing.T, p *v1alpha1.NodePool) {
	t.Helper()
	if s := p.Spec.NodeSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		t.Error("the selector matches every node")
	}
	var keys []string
	for k := range p.Spec.Labels {
		keys = append(keys, k)
	}
	for k := range p.Spec.Annotations {
		keys = append(keys, k)
	}
	for _, taint := range p.Spec.Taints {
		keys = append(keys, taint.Key)
	}
	for _, k := range keys {
		domain, _, has := strings.Cut("."+k, "/")
		if has && !strings.HasSuffix(domain, ".node-restriction.kubernetes.io") && (strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")) {
			t.Errorf("%q is the cluster's own", k)
		}
	}
}
