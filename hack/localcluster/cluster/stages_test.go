package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// stage is what these tests read of a kwok Stage.
type stage struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ResourceRef struct{ Kind string }
		Selector    struct {
			MatchExpressions []struct {
				JQ struct {
					Key, Operator string
					Values        []string
				}
			}
		}
	}
}

func readStages(t *testing.T, kind string) []stage {
	t.Helper()
	decoder := yaml.NewYAMLToJSONDecoder(bytes.NewReader(stages))
	var found []stage
	for {
		var s stage
		err := decoder.Decode(&s)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind == "Stage" && s.Spec.ResourceRef.Kind == kind {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no stage for %s", kind)
	}
	return found
}

// matching returns the names of the stages that select object.
func matching(t *testing.T, all []stage, object map[string]any) []string {
	t.Helper()
	var names []string
	for _, s := range all {
		matches := true
		for _, expression := range s.Spec.Selector.MatchExpressions {
			query, err := gojq.Parse(expression.JQ.Key)
			if err != nil {
				t.Fatalf("%s: %v", s.Metadata.Name, err)
			}
			value, _ := query.Run(object).Next()
			if err, failed := value.(error); failed {
				t.Fatalf("%s: %v", s.Metadata.Name, err)
			}
			in := fmt.Sprint(value) == expression.JQ.Values[0]
			matches = matches && in == (expression.JQ.Operator == "In")
		}
		if matches {
			names = append(names, s.Metadata.Name)
		}
	}
	return names
}

// podStates makes a pod for every combination of what the selectors look at.
func podStates(visit func(pod map[string]any)) {
	for bits := range 1 << 9 {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		for _, phase := range []string{"Pending", "Running", "Succeeded", "Failed"} {
			annotations := map[string]any{}
			for i, name := range []string{"pending", "ready", "exit-code", "run-for"} {
				if bit(i) {
					annotations["localcluster.orrery/"+name] = []string{"true", "false", "1", "1s"}[i]
				}
			}
			metadata := map[string]any{}
			if len(annotations) > 0 {
				metadata["annotations"] = annotations
			}
			if bit(4) {
				metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
				metadata["deletionGracePeriodSeconds"] = 30
			}
			if bit(5) {
				metadata["finalizers"] = []any{"example.com/hold"}
			}
			if bit(6) {
				metadata["ownerReferences"] = []any{map[string]any{"kind": "Job"}}
			}
			spec := map[string]any{"restartPolicy": "Never"}
			if bit(7) {
				spec["restartPolicy"] = "OnFailure"
			}
			status := map[string]any{"phase": phase}
			if bit(8) {
				status["conditions"] = []any{map[string]any{"type": "Ready", "status": "True"}}
			}
			visit(map[string]any{"metadata": metadata, "spec": spec, "status": status})
		}
	}
}

func TestNoTwoPodStagesMatchTheSamePod(t *testing.T) {
	all := readStages(t, "Pod")
	reached := map[string]bool{}
	podStates(func(pod map[string]any) {
		names := matching(t, all, pod)
		if len(names) > 1 {
			t.Errorf("%v match %v", names, pod)
		}
		if len(names) == 1 {
			reached[names[0]] = true
		}
	})
	for _, s := range all {
		if !reached[s.Metadata.Name] {
			t.Errorf("no pod reaches stage %s", s.Metadata.Name)
		}
	}
}

func TestPodsGoThroughTheExpectedStages(t *testing.T) {
	all := readStages(t, "Pod")
	ready := `"conditions": [{"type": "Ready", "status": "True"}]`
	deleted := `"deletionTimestamp": "2026-01-01T00:00:00Z"`
	for name, test := range map[string]struct{ metadata, status, want string }{
		"new":                    {``, `"phase": "Pending"`, "pod-start"},
		"kept pending":           {`"annotations": {"localcluster.orrery/pending": "true"}`, `"phase": "Pending"`, ""},
		"running":                {``, `"phase": "Running", ` + ready, ""},
		"made unready":           {`"annotations": {"localcluster.orrery/ready": "false"}`, `"phase": "Running", ` + ready, "pod-readiness"},
		"of a job":               {`"ownerReferences": [{"kind": "Job"}]`, `"phase": "Running", ` + ready, "pod-complete"},
		"completed":              {`"ownerReferences": [{"kind": "Job"}]`, `"phase": "Succeeded"`, ""},
		"deleted":                {deleted, `"phase": "Running", ` + ready, "pod-delete"},
		"deleted before start":   {deleted, `"phase": "Pending"`, "pod-delete"},
		"deleted and held":       {deleted + `, "finalizers": ["x"], "deletionGracePeriodSeconds": 30`, `"phase": "Running", ` + ready, "pod-terminate"},
		"ended and held":         {deleted + `, "finalizers": ["x"], "deletionGracePeriodSeconds": 30`, `"phase": "Failed"`, "pod-delete"},
		"nothing left but held":  {deleted + `, "finalizers": ["x"], "deletionGracePeriodSeconds": 0`, `"phase": "Failed"`, ""},
		"being erased":           {deleted + `, "deletionGracePeriodSeconds": 0`, `"phase": "Running", ` + ready, ""},
		"completed, then erased": {deleted, `"phase": "Succeeded"`, "pod-delete"},
	} {
		var pod map[string]any
		text := fmt.Sprintf(`{"metadata": {%s}, "spec": {"restartPolicy": "Never"}, "status": {%s}}`, test.metadata, test.status)
		if err := json.Unmarshal([]byte(text), &pod); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(matching(t, all, pod), ","); got != test.want {
			t.Errorf("%s: stage %q, want %q", name, got, test.want)
		}
	}
}

func TestExactlyOneNodeStageMatches(t *testing.T) {
	all := readStages(t, "Node")
	for status, want := range map[string]string{"True": "node-report", "False": "node-start", "Unknown": "node-start"} {
		node := map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": status}},
		}}
		if got := matching(t, all, node); len(got) != 1 || got[0] != want {
			t.Errorf("Ready=%s: stages %v, want %s", status, got, want)
		}
	}
	if got := matching(t, all, map[string]any{"status": map[string]any{}}); len(got) != 1 || got[0] != "node-start" {
		t.Errorf("new node: stages %v", got)
	}
}
