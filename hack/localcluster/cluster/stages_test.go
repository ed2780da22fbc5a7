package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
		Delay struct {
			DurationFrom struct {
				JQ struct{ Expression string }
			}
		}
	}
}

func readStages(t *testing.T, kind string) []stage {
	t.Helper()
	decoder := yaml.NewYAMLToJSONDecoder(strings.NewReader(stages()))
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

// compiled keeps the expressions that have been seen: there are few, and many objects.
var compiled sync.Map

// evaluate returns the first value of a jq expression.
func evaluate(t *testing.T, where, expression string, object map[string]any) any {
	t.Helper()
	code, known := compiled.Load(expression)
	if !known {
		query, err := gojq.Parse(expression)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if code, err = gojq.Compile(query); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		compiled.Store(expression, code)
	}
	value, _ := code.(*gojq.Code).Run(object).Next()
	if err, failed := value.(error); failed {
		t.Fatalf("%s: %v for %v", where, err, object)
	}
	return value
}

// matching returns the names of the stages that select object.
func matching(t *testing.T, all []stage, object map[string]any) []string {
	t.Helper()
	var names []string
	for _, s := range all {
		matches := true
		for _, expression := range s.Spec.Selector.MatchExpressions {
			value := evaluate(t, s.Metadata.Name, expression.JQ.Key, object)
			in := fmt.Sprint(value) == expression.JQ.Values[0]
			matches = matches && in == (expression.JQ.Operator == "In")
		}
		if matches {
			names = append(names, s.Metadata.Name)
		}
	}
	return names
}

// commands are containers that stand for what a command can tell.
var commands = []map[string]any{
	{},
	{"command": []any{"sleep", "5"}},
	{"command": []any{"/bin/false"}, "readinessProbe": map[string]any{"initialDelaySeconds": 5}},
	{"command": []any{"sh", "-c", "while true; do sleep 1; done"}},
	{"image": "pause:3", "readinessProbe": map[string]any{"exec": map[string]any{"command": []any{"test", "-f", "/x"}}}},
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
			policies := []string{"Never", "Always"}
			if bit(7) {
				policies = []string{"OnFailure"}
			}
			status := map[string]any{"phase": phase}
			if bit(8) {
				status["conditions"] = []any{map[string]any{"type": "Ready", "status": "True"}}
			}
			for _, container := range commands {
				for _, policy := range policies {
					spec := map[string]any{"restartPolicy": policy, "containers": []any{container}}
					visit(map[string]any{"metadata": metadata, "spec": spec, "status": status})
				}
			}
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
		"of a job":               {`"ownerReferences": [{"kind": "Job"}]`, `"phase": "Running", ` + ready, "pod-succeed"},
		"told to fail":           {`"annotations": {"localcluster.orrery/run-for": "1s", "localcluster.orrery/exit-code": "2"}`, `"phase": "Running", ` + ready, "pod-fail"},
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

func TestCommandsDecideHowContainersEnd(t *testing.T) {
	all := readStages(t, "Pod")
	const job, pod = `"ownerReferences": [{"kind": "Job"}], "annotations": {"batch.kubernetes.io/job-completion-index": "1"}`, ``
	const once = `"command": ["sh", "-c", "if [[ -r /data/x ]]\nthen\n exit 0\nelse\n touch /data/x\n exit 3\nfi"]`
	for name, test := range map[string]struct{ metadata, policy, container, volumes, want string }{
		"nothing, of a job":         {job, "Never", ``, ``, "pod-succeed"},
		"nothing, of nobody":        {pod, "Always", ``, ``, ""},
		"pause, of a job":           {job, "Never", `"image": "registry.k8s.io/pause:3.10"`, ``, ""},
		"a server":                  {pod, "Always", `"image": "agnhost:2", "args": ["netexec"]`, ``, ""},
		"sleep":                     {pod, "Never", `"command": ["sleep", "300"]`, ``, "pod-succeed"},
		"sleep for ever":            {job, "Never", `"command": ["sleep", "infinity"]`, ``, ""},
		"sleep, restarted":          {pod, "Always", `"command": ["sleep", "300"]`, ``, "pod-restart"},
		"true":                      {job, "OnFailure", `"command": ["/bin/true"]`, ``, "pod-succeed"},
		"false":                     {pod, "Never", `"command": ["/bin/false"]`, ``, "pod-fail"},
		"false, restarted":          {job, "OnFailure", `"command": ["/bin/false"]`, ``, "pod-restart"},
		"exit 0 in a shell":         {pod, "Never", `"command": ["/bin/sh", "-c", "exit 0"]`, ``, "pod-succeed"},
		"exit 7 in a shell":         {job, "Never", `"command": ["/bin/sh"], "args": ["-c", "exit 7"]`, ``, "pod-fail"},
		"a sleep, then exit 7":      {pod, "Never", `"command": ["sh", "-c", "sleep 5; exit 7"]`, ``, "pod-fail"},
		"false in a shell":          {pod, "Never", `"command": ["sh", "-c", "echo x; false"]`, ``, "pod-fail"},
		"an odd index":              {job, "Never", `"command": ["sh", "-c"], "args": ["if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then exit 1; else exit 0; fi"]`, ``, "pod-fail"},
		"a loop":                    {job, "Never", `"command": ["sh", "-c", "while true; do sleep 1; done"]`, ``, ""},
		"a script nobody can read":  {pod, "Always", `"command": ["sh", "-c", "make && ./serve"]`, ``, ""},
		"once, with a pod's volume": {job, "Never", once, `{"emptyDir": {}}`, "pod-fail"},
		"once, with a node's":       {job, "Never", once, `{"hostPath": {"path": "/tmp"}}`, ""},
	} {
		var object map[string]any
		text := fmt.Sprintf(`{"metadata": {%s}, "spec": {"restartPolicy": %q, "containers": [{%s}], "volumes": [%s]},
			"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`,
			test.metadata, test.policy, test.container, test.volumes)
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.Join(matching(t, all, object), ","); got != test.want {
			t.Errorf("%s: stage %q, want %q", name, got, test.want)
		}
	}
}

func TestAPodWaitsForAnImageThatDoesNotExist(t *testing.T) {
	all := readStages(t, "Pod")
	for image, want := range map[string]string{
		"nginx:1": "pod-start", "webserver:404": "", "example.com/x:nonexistent": "", "foo:non-existent": "", "": "pod-start",
	} {
		pod := map[string]any{
			"metadata": map[string]any{}, "status": map[string]any{"phase": "Pending"},
			"spec": map[string]any{"containers": []any{map[string]any{"image": image}}},
		}
		if got := strings.Join(matching(t, all, pod), ","); got != want {
			t.Errorf("image %q: stage %q, want %q", image, got, want)
		}
	}
}

func TestContainersTellWhenTheyEndAndAreReady(t *testing.T) {
	delays := map[string]string{}
	for _, s := range readStages(t, "Pod") {
		delays[s.Metadata.Name] = s.Spec.Delay.DurationFrom.JQ.Expression
	}
	for name, test := range map[string]struct{ stage, container, want string }{
		"sleep":             {"pod-succeed", `"command": ["sleep", "90"]`, "2026-01-01T00:01:30Z"},
		"sleep in a shell":  {"pod-fail", `"command": ["sh", "-c", "sleep 5; exit 1"]`, "2026-01-01T00:00:05Z"},
		"at once":           {"pod-fail", `"command": ["false"]`, "<nil>"},
		"third restart":     {"pod-restart", `"command": ["false"]`, "2026-01-01T00:00:04Z"},
		"first probe":       {"pod-readiness", `"readinessProbe": {"initialDelaySeconds": 20}`, "2026-01-01T00:00:20Z"},
		"no probe":          {"pod-readiness", ``, "<nil>"},
		"hook":              {"pod-delete", `"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 15"]}}}`, "15s"},
		"trap":              {"pod-terminate", `"command": ["sh", "-c", "_end(){\n sleep 5\n}\ntrap _end SIGTERM\nwhile true; do sleep 1; done"]`, "5s"},
		"nothing to finish": {"pod-delete", `"command": ["sleep", "90"]`, "<nil>"},
	} {
		var object map[string]any
		text := fmt.Sprintf(`{"metadata": {}, "spec": {"restartPolicy": "Always", "containers": [{%s}]},
			"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [
				{"restartCount": 2, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}}`, test.container)
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := fmt.Sprint(evaluate(t, name, delays[test.stage], object)); got != test.want {
			t.Errorf("%s: %s after %s, want %s", name, test.stage, got, test.want)
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
