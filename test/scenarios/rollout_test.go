package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const revisionAnnotation = "deployment.kubernetes.io/revision"

const shop = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "web:1", ports: [{name: http, containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
`

// TestDeploymentLife walks one application through everything its owner does with kubectl.
func TestDeploymentLife(t *testing.T) {
	t.Parallel()
	e := anywhere(t, 3)
	e.namespace(t, "shop")
	e.apply(t, shop)

	e.kubectl(t, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=2m")
	eventually(t, "four addresses of each family", func() error {
		ipv4, ipv6, err := e.readyAddresses(t, "shop", "web")
		has4, has6 := e.addressFamilies(t, "shop", "web")
		return errors.Join(err, differ("IPv4", ipv4, count(4, has4)), differ("IPv6", ipv6, count(4, has6)))
	})
	first := e.current(t)
	wantRevision(t, first, "1")
	for _, f := range first.ManagedFields { // by which tools tell what a controller manager has set
		if f.Manager != "kube-controller-manager" {
			t.Errorf("%q manages fields of the ReplicaSet", f.Manager)
		}
	}

	e.kubectl(t, "-n", "shop", "set", "image", "deployment/web", "web=web:2")
	e.kubectl(t, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=2m")
	second := e.current(t)
	wantRevision(t, second, "2")
	if second.Name == first.Name {
		t.Fatal("a new image did not make a new ReplicaSet")
	}
	eventually(t, "only pods of the new image", func() error { return e.allRun(t, "web:2", 4) })

	e.kubectl(t, "-n", "shop", "rollout", "undo", "deployment/web")
	e.kubectl(t, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=2m")
	back := e.current(t)
	if back.Name != first.Name {
		t.Errorf("after undo the ReplicaSet is %s, want the first one, %s", back.Name, first.Name)
	}
	wantRevision(t, back, "3")
	if got, want := back.Annotations["deployment.kubernetes.io/revision-history"], "1"; got != want {
		t.Errorf("revision history is %q, want %q", got, want)
	}
	history := e.kubectl(t, "-n", "shop", "rollout", "history", "deployment/web")
	if lines := strings.Fields(history); !slices.Contains(lines, "2") || !slices.Contains(lines, "3") || slices.Contains(lines, "1") {
		t.Errorf("history lists other revisions than 2 and 3:\n%s", history)
	}

	e.scalesAndPauses(t, first.Name)
	e.kubectl(t, "delete", "namespace", "shop", "--timeout=3m")
	e.nothingLeft(t, "shop")
}

// scalesAndPauses goes on with the application, whose pods are those of the named ReplicaSet.
func (e *env) scalesAndPauses(t *testing.T, replicaSet string) {
	t.Helper()
	e.kubectl(t, "-n", "shop", "scale", "deployment/web", "--replicas=7")
	eventually(t, "seven pods and addresses", func() error {
		return errors.Join(e.rolledOut(t, "shop", "web", 7), e.exposed(t, "shop", "web", 7))
	})
	e.kubectl(t, "-n", "shop", "scale", "deployment/web", "--replicas=2")
	eventually(t, "two pods and addresses", func() error {
		return errors.Join(e.rolledOut(t, "shop", "web", 2), e.exposed(t, "shop", "web", 2))
	})

	e.kubectl(t, "-n", "shop", "rollout", "pause", "deployment/web")
	e.kubectl(t, "-n", "shop", "set", "image", "deployment/web", "web=web:3")
	e.kubectl(t, "-n", "shop", "scale", "deployment/web", "--replicas=3")
	eventually(t, "a paused deployment still scales", func() error {
		d := must(e.Client().AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{}))(t)
		return errors.Join(differ("ready", d.Status.ReadyReplicas, 3), differ("observed generation", d.Status.ObservedGeneration, d.Generation))
	})
	if now := e.current(t); now.Name != replicaSet {
		t.Errorf("a paused deployment went on to ReplicaSet %s", now.Name)
	}
	e.kubectl(t, "-n", "shop", "rollout", "resume", "deployment/web")
	e.kubectl(t, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=2m")
	eventually(t, "pods of the resumed rollout", func() error { return e.allRun(t, "web:3", 3) })
	wantRevision(t, e.current(t), "4")
}

// current returns the one ReplicaSet of deployment web that has replicas.
func (e *env) current(t *testing.T) *appsv1.ReplicaSet {
	t.Helper()
	list := must(e.Client().AppsV1().ReplicaSets("shop").List(t.Context(), metav1.ListOptions{}))(t)
	var found *appsv1.ReplicaSet
	for i := range list.Items {
		if rs := &list.Items[i]; *rs.Spec.Replicas > 0 {
			if found != nil {
				t.Fatalf("both %s and %s have replicas", found.Name, rs.Name)
			}
			found = rs
		}
	}
	if found == nil {
		t.Fatal("no ReplicaSet has replicas")
	}
	return found
}

// wantRevision checks the revision of a ReplicaSet.
func wantRevision(t *testing.T, rs *appsv1.ReplicaSet, want string) {
	t.Helper()
	if got := rs.Annotations[revisionAnnotation]; got != want {
		t.Errorf("revision of %s is %q, want %q", rs.Name, got, want)
	}
}

func (e *env) allRun(t *testing.T, image string, n int) error {
	pods, err := e.pods(t, "shop", "web")
	if err != nil {
		return err
	}
	for _, p := range pods {
		if got := p.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("pod %s runs %s", p.Name, got)
		}
	}
	return differ("number of pods", len(pods), n)
}

// nothingLeft checks that a namespace is gone and that no pod, slice or ReplicaSet survives it.
func (e *env) nothingLeft(t *testing.T, name string) {
	t.Helper()
	eventually(t, "namespace "+name+" gone", func() error {
		_, err := e.Client().CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is still there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	kinds := e.kubectl(t, "api-resources", "--verbs=list", "--namespaced", "-o", "name")
	left := e.kubectl(t, "get", strings.Join(strings.Fields(kinds), ","), "-n", name, "-o", "name", "--ignore-not-found")
	if left != "" {
		t.Errorf("left of namespace %s:\n%s", name, left)
	}
}
