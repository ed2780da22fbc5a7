package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"orrery/hack/localcluster/cluster"
)

const (
	deployment = "[sig-apps] Deployment rolls out [Conformance]"
	job        = "[sig-apps] Job ends"
	cronJob    = "[sig-apps] CronJob runs [Slow]"
	taints     = "[sig-node] NoExecuteTaintManager evicts [Serial]"
)

var known = []spec{
	{deployment, []string{"Conformance", "sig-apps"}},
	{job, nil},
	{cronJob, []string{"Slow"}},
	{taints, []string{"Serial"}},
	{"[sig-apps] Job gangs", []string{"Alpha", "FeatureGate:X"}},
	{"[sig-apps] DaemonRestart restarts [Provider:gce]", nil},
	{"[sig-cli] Kubectl prints", nil},
}

func names(specs []spec) []string {
	var names []string
	for _, s := range specs {
		names = append(names, s.name)
	}
	return names
}

func TestChoice(t *testing.T) {
	listed := map[string]bool{deployment: true, cronJob: true, taints: true}
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"the list":            {nil, []string{cronJob, deployment, taints}},
		"everything":          {[]string{"-all"}, []string{cronJob, deployment, job, taints}},
		"the fast ones":       {[]string{"-fast"}, []string{deployment}},
		"one subject":         {[]string{"-focus=CronJob"}, []string{cronJob}},
		"one that fails":      {[]string{"-focus=Job ends"}, nil},
		"one that fails, all": {[]string{"-focus=Job ends", "-all"}, []string{job}},
		"a baseline":          {[]string{"-baseline"}, []string{cronJob, deployment, job, taints}},
	} {
		s, err := parse(test.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(choose(known, listed, s)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestBadArgumentsAreReportedTogether(t *testing.T) {
	_, err := parse([]string{"-focus=(", "-managers=both", "-procs=0"})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"-focus", `"both"`, "-procs"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := parse([]string{"-baseline", "-focus=x"}); err == nil {
		t.Error("a part of the specs may make the whole list")
	}
}

func TestFastAndBaselineRunOneManager(t *testing.T) {
	for arg, want := range map[string]cluster.ManagerKind{"-fast": cluster.Orrery, "-baseline": cluster.Upstream} {
		if s, err := parse([]string{arg}); err != nil || !slices.Equal(s.managers, []cluster.ManagerKind{want}) {
			t.Errorf("%s runs %v, %v", arg, s.managers, err)
		}
	}
}

func TestASpecBelongsToOneSubject(t *testing.T) {
	for name, want := range map[string]string{
		"[sig-apps] Job x":                                 "Job",
		"[sig-apps] CronJob x":                             "CronJob",
		"[sig-apps] Daemon set [Serial] x":                 "DaemonSet",
		"[sig-network] EndpointSlice x":                    "EndpointSlice",
		"[sig-network] EndpointSliceMirroring x":           "EndpointSliceMirroring",
		"[sig-network] EndpointsController x":              "Endpoints",
		"[sig-network] ServiceCIDR and IPAddress API x":    "Service CIDRs",
		"[sig-api-machinery] OrderedNamespaceDeletion x":   "OrderedNamespaceDeletion",
		"[sig-storage] Persistent Volumes-local x":         "",
		"[sig-cli] Kubectl client [sig-apps] Job":          "",
		"[sig-apps] DaemonRestart [Provider:gce] x":        "",
		"[sig-auth] ServiceAccounts mounts [Conformance] ": "ServiceAccounts",
	} {
		if s, _ := subjectOf(name); s.name != want {
			t.Errorf("%s belongs to %q, want %q", name, s.name, want)
		}
	}
}

// TestARealNodeGetsTheSpecsThatAreForIt chooses those that need containers or traffic, and none that needs more nodes.
func TestARealNodeGetsTheSpecsThatAreForIt(t *testing.T) {
	specs := []spec{
		{"[sig-apps] Job ends", nil},
		{"[sig-network] Services serve [Conformance]", nil},
		{"[sig-network] Services serve slowly", nil},
		{"[sig-network] Services work after restarting apiserver", []string{"Disruptive"}},
		{"[sig-apps] StatefulSet Deploy clustered applications should creating a working CockroachDB cluster", []string{"Slow"}},
		{"[sig-apps] ReplicaSet should serve a basic image with a private image", nil},
		{"[sig-api-machinery] Namespaces empties", nil},
		{"[sig-cli] Kubectl prints", nil},
	}
	for real, want := range map[bool][]string{
		true:  {"[sig-apps] Job ends", "[sig-network] Services serve [Conformance]"},
		false: {"[sig-api-machinery] Namespaces empties", "[sig-apps] Job ends", "[sig-apps] ReplicaSet should serve a basic image with a private image", specs[4].name},
	} {
		args := []string{"-all"}
		if real {
			args = append(args, "-real")
		}
		s, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(choose(specs, nil, s)); !slices.Equal(got, want) {
			t.Errorf("real %v: %q, want %q", real, got, want)
		}
		if name := filepath.Base(s.passing); real != (name == "passing-real.txt") {
			t.Errorf("real %v is held against %s", real, name)
		}
	}
}

func TestUpstreamDoesTheRest(t *testing.T) {
	c := controllers{"job-controller": true, "deployment-controller": true, "nodepool-controller": false}
	args := strings.Join(c.beside(), " ")
	if want := "--controllers=*,bootstrapsigner,tokencleaner,-deployment-controller,-job-controller"; !strings.HasSuffix(args, want) {
		t.Errorf("%s, want %s", args, want)
	}
	for name, want := range map[string]string{"Job": "Orrery", "CronJob": "both", "StatefulSet": "upstream beside Orrery"} {
		i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == name })
		if got := c.deciders(subjects[i]); got != want {
			t.Errorf("%s is decided by %s, want %s", name, got, want)
		}
	}
}

// A script answers as `orrery controllers -o json` does.
func TestControllersAreReadFromTheBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery")
	script := `#!/bin/sh
echo '[{"name": "job-controller", "built": true, "default": "on"}, {"name": "x", "built": false, "default": "on"},
  {"name": "nodepool-controller", "built": true, "default": "off"}]'
`
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := readControllers(context.Background(), path)
	if err != nil || !got["job-controller"] || got.has("x") || !got.has("nodepool-controller") || got["nodepool-controller"] {
		t.Errorf("%v, %v", got, err)
	}
}

func ran(name, state string) ginkgoSpec {
	g := ginkgoSpec{LeafNodeType: "It", LeafNodeText: name, State: state, RunTime: 2e9}
	if state == failed {
		g.Failure.Message = "timed out\nlong story"
		g.Failure.Location.FileName, g.Failure.Location.LineNumber = "job.go", 7
	}
	return g
}

// outcomes makes a result out of attempts.
func outcomes(manager string, attempts ...[]ginkgoSpec) *result {
	r := &result{Manager: manager}
	specs := known[:4]
	for i, got := range attempts {
		r.add(specs, got, i+1)
		specs = r.failed(specs)
	}
	return r
}

func TestASecondAttemptCountsAndIsRemembered(t *testing.T) {
	r := outcomes("orrery",
		[]ginkgoSpec{ran(deployment, passed), ran(job, failed), ran(cronJob, failed), ran(taints, "skipped")},
		[]ginkgoSpec{ran(job, passed), ran(cronJob, failed)})
	for name, want := range map[string]outcome{
		deployment: {State: passed, Attempts: 1},
		job:        {State: passed, Attempts: 2, Where: "job.go:7"},
		cronJob:    {State: failed, Attempts: 2, Where: "job.go:7"},
		taints:     {State: skipped, Attempts: 1},
	} {
		got, ok := r.of(name)
		if !ok || got.State != want.State || got.Attempts != want.Attempts || got.Where != want.Where || got.flaky() != (name == job) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestASpecThatNobodyHeardOfHasFailed(t *testing.T) {
	got, _ := outcomes("orrery", []ginkgoSpec{ran(job, "interrupted")}).of(deployment)
	if got.State != failed || got.Message != "did not run" {
		t.Errorf("%+v", got)
	}
	if got, _ := outcomes("orrery", []ginkgoSpec{ran(job, "interrupted")}).of(job); got.State != failed {
		t.Errorf("interrupted is %s", got.State)
	}
}

func TestOnlyWhatPassesWithUpstreamMustPass(t *testing.T) {
	built := controllers{"deployment-controller": true, "replicaset-controller": true}
	upstream := outcomes("upstream", []ginkgoSpec{ran(deployment, passed), ran(job, passed), ran(cronJob, failed), ran(taints, failed)},
		[]ginkgoSpec{ran(cronJob, failed), ran(taints, failed)})
	good := outcomes("orrery", []ginkgoSpec{ran(deployment, passed), ran(job, passed), ran(cronJob, failed), ran(taints, passed)},
		[]ginkgoSpec{ran(cronJob, failed)})
	var out bytes.Buffer
	if err := report(&out, known[:4], upstream, good, nil, built); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"2 pass with both", "1 of them [Conformance]", "1 of them decided by Orrery alone", "1 pass with neither", "and not with upstream:\n   " + taints} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	bad := outcomes("orrery", []ginkgoSpec{ran(deployment, passed), ran(job, failed)})
	out.Reset()
	if err := report(&out, known[:4], upstream, bad, nil, built); err == nil || !strings.Contains(out.String(), job+"\n      job.go:7: timed out\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := report(&out, known[:4], nil, bad, map[string]bool{deployment: true}, built); err != nil {
		t.Errorf("held against the list: %v", err)
	}
	if err := report(&out, known[:4], nil, bad, map[string]bool{job: true}, built); err == nil {
		t.Error("a spec of the list may fail")
	}
}

func TestTheListIsWrittenSortedAndReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	if err := writeList(path, outcomes("upstream", []ginkgoSpec{ran(job, passed), ran(deployment, passed), ran(cronJob, failed)})); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(text), deployment+"\n"+job+"\n") {
		t.Errorf("%v\n%s", err, text)
	}
	listed, err := readList(path)
	if err != nil || len(listed) != 2 || !listed[job] {
		t.Errorf("%v, %v", listed, err)
	}
}

func TestTheCommittedListsAreSortedAndBelongToTheSubjects(t *testing.T) {
	for _, name := range []string{"passing.txt", "passing-real.txt"} {
		checkList(t, name)
	}
}

func checkList(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(string(text), listHeader), "\n"), "\n")
	if len(lines) < 80 || !slices.IsSorted(lines) {
		t.Errorf("%d lines, sorted: %v", len(lines), slices.IsSorted(lines))
	}
	for i, line := range lines {
		if _, ok := subjectOf(line); !ok || i > 0 && line == lines[i-1] {
			t.Errorf("line %q is of no subject, or twice", line)
		}
	}
}

func TestNoFolderOfAVolumeIsLeft(t *testing.T) {
	if err := os.MkdirAll(volumeDir, 0o755); err != nil {
		t.Fatal(err)
	}
	mine, err := os.MkdirTemp(volumeDir, "test-")
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	volume := func(name, path string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
		return v
	}
	if err := removeVolumes(t.Context(), fake.NewSimpleClientset(volume("a", mine), volume("b", other))); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mine); !os.IsNotExist(err) {
		t.Errorf("the volume's folder is left: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a folder of somebody else is gone: %v", err)
	}
}
