package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// relabel gives the pods of one namespace, as they are made, another label than they were made with.
const relabel = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: relabel}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: changed}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/app", value: "other"}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: relabel}
spec: {policyName: relabel}
`

// policy is an admission policy that refuses an operation on the objects of a resource for which an expression is false.
type policy struct{ name, group, resource, operation, allow, message string }

// enforce puts a policy into force, which is when kubectl is refused with the policy's message. It returns what lifts it.
func (e *env) enforce(t *testing.T, p policy, refused ...string) (lift func()) {
	t.Helper()
	e.apply(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [%[2]q], apiVersions: [v1], resources: [%[3]s], operations: [%[4]s]}]
  validations: [{expression: %[5]q, message: %[6]s}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, p.name, p.group, p.resource, p.operation, p.allow, p.message))
	eventually(t, "the policy "+p.name+" is in force", func() error {
		if _, err := e.tryKubectl(t, "", append(refused, "--dry-run=server")...); err == nil || !strings.Contains(err.Error(), p.message) {
			return fmt.Errorf("kubectl %s: %v", strings.Join(refused, " "), err)
		}
		return nil
	})
	return func() {
		t.Helper()
		e.kubectl(t, "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", p.name)
	}
}

// TestPodsThatAPolicyTakesAway has a ReplicaSet whose pods come out as those of nobody: it makes others without an end,
// but no faster than a client with the usual limits would.
func TestPodsThatAPolicyTakesAway(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 1)
	e.namespace(t, "changed")
	e.apply(t, relabel)
	eventually(t, "pods are given other labels", func() error {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{"app": "probe"}}, Spec: podSpec("fake:1")}
		made, err := e.Client().CoreV1().Pods("changed").Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		return differ("label", made.Labels["app"], "other")
	})

	const replicas, spare, perSecond, slack = 5, 30, 20, 20
	began := time.Now()
	must(e.Client().AppsV1().ReplicaSets("changed").Create(t.Context(), replicaSet("web", replicas), metav1.CreateOptions{}))(t)
	eventually(t, "more pods than are asked for at once", func() error {
		list, err := e.Client().CoreV1().Pods("changed").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		n, most := len(list.Items), 2*replicas+spare+slack+int(perSecond*time.Since(began).Seconds())
		switch {
		case n > most:
			t.Fatalf("%d pods after %v, want at most %d", n, time.Since(began), most)
		case n < 2*replicas+spare+2*perSecond:
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})

	e.kubectl(t, "delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", "relabel")
	eventually(t, "the pods that are asked for", func() error {
		rs, err := e.Client().AppsV1().ReplicaSets("changed").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return errors.Join(differ("replicas", rs.Status.Replicas, replicas), differ("ready", rs.Status.ReadyReplicas, replicas))
	})
}

// TestAReplicaSetThatAPolicyFreezes has a rollout that cannot end: the status tells how far it is.
func TestAReplicaSetThatAPolicyFreezes(t *testing.T) {
	t.Parallel()
	e := withOrrery(t, 1)
	e.expect("denied request: it stays as it is")
	d := deployment("web", 3)
	d.Spec.Template.Spec.Containers[0].Image = "old:1"
	deployments := e.Client().AppsV1().Deployments("default")
	must(deployments.Create(t.Context(), d, metav1.CreateOptions{}))(t)
	eventually(t, "the first rollout", func() error { return e.rolledOut(t, "default", "web", 3) })
	lift := e.enforce(t, policy{
		name: "freeze", group: "apps", resource: "replicasets", operation: "UPDATE",
		allow: `object.spec.template.spec.containers[0].image != "old:1"`, message: "it stays as it is",
	}, "annotate", "replicasets", "--all", "--overwrite", "a=b")

	e.kubectl(t, "patch", "deployment", "web", "--type=json", "--patch", `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "new:1"}]`)
	eventually(t, "the status tells of the new pod", func() error {
		now, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := now.Status
		return errors.Join(differ("observed generation", s.ObservedGeneration, now.Generation),
			differ("pods", s.Replicas, 4), differ("updated", s.UpdatedReplicas, 1), differ("available", s.AvailableReplicas, 4))
	})
	lift()
	eventually(t, "the rollout ends", func() error { return e.rolledOut(t, "default", "web", 3) })
}
