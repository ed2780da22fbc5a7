package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery/hack/localcluster/cluster"
)

// fakeGinkgo puts a script in Ginkgo's place: it notes its arguments, writes the report, and exits with the code.
func fakeGinkgo(t *testing.T, report []ginkgoSpec, code int) (r *runner, calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(ginkgoReport{{SpecReports: report}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"report": string(text),
		"ginkgo": fmt.Sprintf(`#!/bin/sh
echo "$*" >> %[1]s/calls
for arg; do
  case $arg in
  --json-report=*) file=${arg#--json-report=} ;;
  --output-dir=*) dir=${arg#--output-dir=} ;;
  esac
done
[ -s %[1]s/report ] && cp %[1]s/report "$dir/$file"
exit %[2]d
`, dir, code),
	} {
		if report == nil && name == "report" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	suite := cluster.Suite{Ginkgo: filepath.Join(dir, "ginkgo"), E2E: "e2e.test", Kubectl: "kubectl"}
	return &runner{suite: suite, kubeconfig: "admin.kubeconfig", dir: t.TempDir(), procs: 3, nodes: 4}, func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

func TestSpecsThatBearNoCompanyRunAlone(t *testing.T) {
	r, calls := fakeGinkgo(t, []ginkgoSpec{ran(deployment, passed), ran(job, failed), ran(taints, passed), ran("another", passed)}, 1)
	got := &result{Manager: "orrery"}
	if err := r.all(t.Context(), known[:4], 1, got); err != nil {
		t.Fatal(err)
	}
	made := calls()
	if len(made) != 2 {
		t.Fatalf("calls %q", made)
	}
	if !strings.Contains(made[0], "--procs=3") || strings.Contains(made[0], "NoExecute") || !strings.Contains(made[0], `Job ends$`) {
		t.Errorf("the first call is %s", made[0])
	}
	if !strings.Contains(made[1], "--procs=1") || !strings.Contains(made[1], `NoExecuteTaintManager evicts \[Serial\]$`) || strings.Contains(made[1], "Job") {
		t.Errorf("the second call is %s", made[1])
	}
	for name, want := range map[string]string{deployment: passed, job: failed, cronJob: failed, taints: passed} {
		if o, _ := got.of(name); o.State != want {
			t.Errorf("%s: %+v, want %s", name, o, want)
		}
	}
	if len(got.Specs) != 4 {
		t.Errorf("%d outcomes", len(got.Specs))
	}
}

func TestOnlyWhatFailedIsTriedAgain(t *testing.T) {
	r, calls := fakeGinkgo(t, []ginkgoSpec{ran(deployment, passed), ran(job, failed)}, 1)
	if err := r.all(context.Background(), known[:2], 3, &result{}); err != nil {
		t.Fatal(err)
	}
	made := calls()
	if len(made) != 3 || strings.Contains(made[1], "Deployment") || !strings.Contains(made[2], "Job") {
		t.Errorf("calls %q", made)
	}
}

func TestASuiteThatDoesNotStartIsAnError(t *testing.T) {
	broken := ginkgoSpec{LeafNodeType: "SynchronizedBeforeSuite", State: "failed"}
	broken.Failure.Message = "no node is ready"
	r, _ := fakeGinkgo(t, []ginkgoSpec{broken}, 1)
	if err := r.all(t.Context(), known[:1], 1, &result{}); err == nil || !strings.Contains(err.Error(), "no node is ready") {
		t.Errorf("error is %v", err)
	}
	r, _ = fakeGinkgo(t, nil, 2)
	if err := r.all(t.Context(), known[:1], 1, &result{}); err == nil || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("without a report the error is %v", err)
	}
}
