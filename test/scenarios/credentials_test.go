package scenarios

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// writers says who may write what: verbs by kind, by service account. Users that are not accounts of controllers have
// their full name.
var writers = map[string]map[string][]string{
	"deployment-controller": {
		"replicasets": {"create", "update", "patch", "delete"}, "deployments": {"update", "patch"},
		"deployments/status": {"update", "patch"},
	},
	"replicaset-controller": {
		"pods": {"create", "delete", "patch"}, "replicasets/status": {"update", "patch"},
	},
	"replication-controller": {
		"pods": {"create", "delete", "patch"}, "replicationcontrollers/status": {"update", "patch"},
	},
	"statefulset-controller": {
		"pods": {"create", "delete", "update", "patch"}, "controllerrevisions": {"create", "update", "patch", "delete"},
		"persistentvolumeclaims": {"create", "update", "delete"}, "statefulsets/status": {"update"},
	},
	"daemon-set-controller": {
		"pods": {"create", "delete", "patch"}, "controllerrevisions": {"create", "update", "patch", "delete"},
		"daemonsets/status": {"update"},
	},
	"job-controller": {"pods": {"create", "delete", "patch"}, "jobs/status": {"update", "patch"}},
	"cronjob-controller": {
		"jobs": {"create", "update", "patch", "delete"}, "cronjobs": {"update"}, "cronjobs/status": {"update"},
	},
	"disruption-controller": {
		"poddisruptionbudgets/status": {"update"}, "pods/status": {"patch"},
	},
	"endpointslice-controller": {"endpointslices": {"create", "update", "patch", "delete"}},
	"service-account-controller": {
		"serviceaccounts": {"create"},
	},
	"root-ca-cert-publisher":        {"configmaps": {"create", "update", "patch"}},
	"namespace-controller":          {"*": {"delete", "deletecollection"}, "namespaces/finalize": {"update"}, "namespaces/status": {"update", "patch"}},
	"generic-garbage-collector":     {"*": {"delete", "patch", "update"}},
	"pod-garbage-collector":         {"pods": {"delete"}, "pods/status": {"patch"}},
	"ttl-after-finished-controller": {"jobs": {"delete"}},
	"node-controller": {
		"nodes": {"patch", "update"}, "nodes/status": {"patch", "update"}, "pods": {"delete"}, "pods/status": {"patch", "update"},
	},
	// The process itself creates the service accounts and fills in token Secrets.
	"system:kube-controller-manager": {
		"serviceaccounts": {"create", "update", "patch"}, "secrets": {"create", "update", "patch", "delete"},
	},
}

// allowed is true for a write that is the task of its author.
func allowed(a auditEvent) bool {
	kinds, known := writers[a.account()]
	return known && (slices.Contains(kinds[a.kind()], a.Verb) || slices.Contains(kinds["*"], a.Verb))
}

// TestEachControllerWritesAsItself runs every controller and then checks in the audit log who did what.
func TestEachControllerWritesAsItself(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 2)
	e.useEverything(t)

	seen := map[string]bool{}
	for _, a := range e.audit(t, func(a auditEvent) bool { return a.byOrrery() && a.writes() }) {
		seen[a.account()+" "+a.Verb+" "+a.kind()] = true
		if !allowed(a) {
			t.Errorf("not the business of %s: %s", a.account(), a)
		}
	}
	for _, want := range []string{
		"deployment-controller create replicasets",
		"replicaset-controller create pods",
		"replication-controller create pods",
		"disruption-controller update poddisruptionbudgets/status",
		"endpointslice-controller create endpointslices",
		"service-account-controller create serviceaccounts",
		"root-ca-cert-publisher create configmaps",
		"namespace-controller update namespaces/finalize",
		"namespace-controller deletecollection configmaps",
		"generic-garbage-collector delete replicasets",
		"ttl-after-finished-controller delete jobs",
		"system:kube-controller-manager create serviceaccounts",
		"system:kube-controller-manager update secrets",
	} {
		if !seen[want] {
			t.Errorf("nobody saw: %s", want)
		}
	}
	e.bootstrapRolesAreKnown(t)
	if t.Failed() {
		for line := range seen {
			t.Log("seen: ", line)
		}
	}
}

// bootstrapRolesAreKnown compares the rules that the controllers' unit tests enforce with those that this server grants.
func (e *env) bootstrapRolesAreKnown(t *testing.T) {
	t.Helper()
	var known map[string][]rbacv1.PolicyRule
	if err := json.Unmarshal(must(os.ReadFile("../../controllers/testdata/bootstrap-roles.json"))(t), &known); err != nil {
		t.Fatal(err)
	}
	for _, role := range must(e.Client().RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{}))(t).Items {
		account, ok := strings.CutPrefix(role.Name, "system:controller:")
		if !ok {
			continue
		}
		if !apiequality.Semantic.DeepEqual(role.Rules, known[account]) {
			t.Errorf("%s grants %s; controllers/testdata/bootstrap-roles.json says otherwise", role.Name, must(json.Marshal(role.Rules))(t))
		}
		delete(known, account)
	}
	for account := range known {
		t.Errorf("controllers/testdata/bootstrap-roles.json has rules for %s, which the server has no role for", account)
	}
}

// useEverything gives every controller something to write.
func (e *env) useEverything(t *testing.T) {
	t.Helper()
	ns := e.namespace(t, "everything")
	e.apply(t, `
apiVersion: v1
kind: ReplicationController
metadata: {name: rc, namespace: everything}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: rc}}
    spec: {containers: [{name: c, image: fake}]}
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: everything, annotations: {kubernetes.io/service-account.name: default}}
type: kubernetes.io/service-account-token
`)
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), deployment("web", 2), metav1.CreateOptions{}))(t)
	must(e.Client().CoreV1().Services(ns).Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
	e.guard(t, ns, budget("web", "web", "1", ""))
	e.finishedJob(t, ns, "done", 1)
	eventually(t, "deployment", func() error { return e.rolledOut(t, ns, "web", 2) })
	eventually(t, "endpoints", func() error { return e.exposed(t, ns, "web", 2) })
	e.gone(t, "jobs", ns, "done")
	e.kubectl(t, "-n", ns, "delete", "deployment", "web", "--cascade=background")
	eventually(t, "pods of the deployment collected", func() error {
		pods, err := e.pods(t, ns, "web")
		if err != nil {
			return err
		}
		return differ("pods", len(pods), 0)
	})
	e.kubectl(t, "delete", "namespace", ns, "--timeout=3m")
}

// TestTokensAreFetchedTogether measures how long the start waits for the tokens of all controllers.
func TestTokensAreFetchedTogether(t *testing.T) {
	e := start(t, cluster.Options{})
	p := e.manage(t, cluster.Orrery)
	line := regexp.MustCompile(`"Fetched service account tokens" identities=(\d+) took="?([0-9a-zµ.]+)"?`)
	var fields []string
	eventually(t, "a line about tokens", func() error {
		text, err := os.ReadFile(p.LogPath())
		if err != nil {
			return err
		}
		if fields = line.FindStringSubmatch(string(text)); fields == nil {
			return fmt.Errorf("not in the log")
		}
		return nil
	})
	took := must(time.ParseDuration(fields[2]))(t)
	t.Logf("%s tokens in %v", fields[1], took)
	if limit := 1500 * time.Millisecond * slowness(t); took > limit {
		t.Errorf("fetching %s tokens took %v, want at most %v", fields[1], took, limit)
	}
	var accounts, want []string
	for _, a := range e.audit(t, func(a auditEvent) bool {
		return a.byOrrery() && a.Object.Subresource == "token" && a.Response.Code == http.StatusCreated
	}) {
		accounts = append(accounts, a.Object.Name)
	}
	for _, k := range knownControllers(t) {
		if k.ServiceAccount != "" && k.Default == "on" {
			want = append(want, k.ServiceAccount)
		}
	}
	if !same(unique(accounts), unique(want)) {
		t.Errorf("accounts that got a token are %v, want %v", unique(accounts), unique(want))
	}
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// slowness is 1 on an idle machine, and more on a busy one.
func slowness(t *testing.T) time.Duration {
	text := must(os.ReadFile("/proc/loadavg"))(t)
	var load float64
	if _, err := fmt.Sscan(strings.Fields(string(text))[0], &load); err != nil {
		t.Fatal(err)
	}
	return time.Duration(max(1, load/2))
}
