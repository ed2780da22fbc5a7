package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rig is a node under test and the program that runs it.
type rig struct {
	t    *testing.T
	tool string
	node *node
}

// newRig finds the program, and skips the test where no node can run. What the test leaves behind by failing it removes.
func newRig(t *testing.T) *rig {
	tool := os.Getenv("REALNODE_BIN")
	if tool == "" {
		t.Skip("REALNODE_BIN names no program; run this with \"make test-realnode\"")
	}
	if err := requirements(); err != nil {
		t.Skipf("this machine cannot run a node: %v", err)
	}
	n, err := find("test")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, tool: tool, node: n}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := r.try("kubectl", "get", "pods,jobs,events", "-A", "-o", "wide")
			t.Logf("%s", log)
		}
		if out, err := r.try("down"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return r
}

func (r *rig) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, r.tool, append([]string{"-name", "test"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (r *rig) run(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("realnode %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// step runs the program and logs how long it took.
func (r *rig) step(args ...string) {
	r.t.Helper()
	begin := time.Now()
	r.run(args...)
	r.t.Logf("%s: %.1f s", strings.Join(args, " "), time.Since(begin).Seconds())
}

func (r *rig) kubectl(args ...string) string {
	r.t.Helper()
	return r.run(append([]string{"kubectl"}, args...)...)
}

// eventually waits for an answer of kubectl.
func (r *rig) eventually(want string, args ...string) {
	r.t.Helper()
	got := ""
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		var err error
		if got, err = r.try(append([]string{"kubectl"}, args...)...); err == nil && got == want {
			return
		}
	}
	r.t.Fatalf("kubectl %s is %q, want %q", strings.Join(args, " "), got, want)
}

// rollout waits until a workload is rolled out.
func (r *rig) rollout(name string) {
	r.t.Helper()
	r.kubectl("rollout", "status", name, "--timeout=120s")
}

// job runs a Job that fails once.
func (r *rig) job(name string) {
	r.t.Helper()
	text, err := os.ReadFile("testdata/job.yaml")
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("NAME"), []byte(name)), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.kubectl("apply", "-f", path)
}

func (r *rig) jobDone(name string) {
	r.t.Helper()
	r.eventually("1 1 True", "get", "job", name, "-o",
		`jsonpath={.status.failed} {.status.succeeded} {.status.conditions[?(@.type=="Complete")].status}`)
	if got := r.kubectl("logs", "job/"+name, "--all-pods=true", "--prefix=false"); !strings.Contains(got, "done") {
		r.t.Errorf("the log of job %s is %q", name, got)
	}
}

// pods returns every pod but those of the manager's, with what would tell of a replacement or a restart.
func (r *rig) pods(selector string) []string {
	r.t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name, UID string }
			Status   struct {
				ContainerStatuses []struct {
					RestartCount int
					ContainerID  string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.kubectl("get", "pods", "-A", "-o", "json", "-l", selector)), &list); err != nil {
		r.t.Fatal(err)
	}
	var pods []string
	for _, p := range list.Items {
		if !strings.HasPrefix(p.Metadata.Name, manager) {
			pods = append(pods, fmt.Sprintf("%s/%s %s %v", p.Metadata.Namespace, p.Metadata.Name, p.Metadata.UID, p.Status.ContainerStatuses))
		}
	}
	slices.Sort(pods)
	return pods
}

func (r *rig) unchanged(what, selector string, before []string) {
	r.t.Helper()
	if after := r.pods(selector); !slices.Equal(before, after) {
		r.t.Errorf("%s: pods were\n  %s\nand are\n  %s", what, strings.Join(before, "\n  "), strings.Join(after, "\n  "))
	}
}

// serves asks the web Service's address from within a pod until all replicas have answered.
func (r *rig) serves(replicas int) {
	r.t.Helper()
	address := r.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	seen := map[string]bool{}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if name, err := r.try("kubectl", "exec", "reader", "--", "busybox", "timeout", "5", "wget", "-q", "-O-", "http://"+address+"/hostname"); err == nil {
			seen[name] = true
		}
		if len(seen) == replicas {
			return
		}
	}
	r.t.Errorf("%d of %d replicas answer: %v", len(seen), replicas, seen)
}

// surroundings are what a node could leave on this machine.
func surroundings(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	for _, command := range []string{
		"cat /proc/self/mounts", "ip -o link", "ip route", "iptables-save -c | grep -v '^#' | sed 's/\\[[0-9:]*\\]//'",
		"ls -d /sys/fs/cgroup/*/orrery-realnode-test /sys/fs/cgroup/orrery-realnode-test",
		"ls -d /etc/kubernetes /etc/cni /opt/cni /var/lib/kubelet /var/lib/etcd /var/lib/containerd /var/lib/jobs /run/containerd",
		"ps -eo args | grep -c '[r]ealnode/test'",
	} {
		text, _ := exec.Command("sh", "-c", command+" 2>&1").CombinedOutput()
		fmt.Fprintf(&out, "%s:\n%s", command, text)
	}
	return out.String()
}

// TestControlPlaneNode replaces the manager of a node with workloads and puts it back, and then pulls the plug.
func TestControlPlaneNode(t *testing.T) {
	r := newRig(t)
	r.run("down")
	before := surroundings(t)
	r.step("up")

	r.kubectl("apply", "-f", "testdata/workloads.yaml")
	r.job("under-upstream")
	r.rollout("deployment/web")
	r.rollout("statefulset/pages")
	r.jobDone("under-upstream")
	r.kubectl("wait", "pod/reader", "--for=condition=Ready", "--timeout=60s")
	r.serves(2)
	if got := r.kubectl("exec", "pages-0", "--", "cat", "/www/index.html"); got != "pages-0" {
		t.Errorf("exec prints %q", got)
	}

	everything := r.pods("")
	r.step("switch", "orrery")
	r.unchanged("after the switch", "", everything)
	pages := r.pods("app=pages")
	r.kubectl("set", "env", "deployment/web", "ROUND=2")
	r.kubectl("scale", "deployment/web", "--replicas=3")
	r.job("under-orrery")
	r.rollout("deployment/web")
	r.serves(3)
	r.jobDone("under-orrery")
	if log := r.kubectl("logs", "reader"); strings.Contains(log, "no answer") || !strings.Contains(log, "pages-1") {
		t.Errorf("the pages have not been served all the time: %d times no answer", strings.Count(log, "no answer"))
	}
	r.kubectl("delete", "pod", "pages-1", "--wait=true")
	r.rollout("statefulset/pages")
	r.eventually("2", "get", "statefulset", "pages", "-o", "jsonpath={.status.readyReplicas}")
	if now := r.pods("app=pages"); len(now) != 2 || now[0] != pages[0] || now[1] == pages[1] {
		t.Errorf("pages were %v and are %v: want the second replaced", pages, now)
	}

	everything = r.pods("")
	r.step("switch", "upstream")
	r.unchanged("after the way back", "", everything)
	r.kubectl("scale", "deployment/web", "--replicas=1")
	r.rollout("deployment/web")
	s, _, err := r.node.read()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.step("down")
	r.run("down")
	if after := surroundings(t); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
	if _, err := os.Stat(r.node.dir); !os.IsNotExist(err) {
		t.Errorf("the node's folder is left: %v", err)
	}
}
