package scenarios

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// TestNamespaces deletes namespaces in a cluster with extension APIs that do not respond, or support almost no verbs.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{
		Nodes: 1, Untaint: true, ControllerManager: cluster.Orrery, CMArgs: []string{"-v=2"},
		APIServerArgs: []string{servicesLead}, // an extension API is a port of this machine
	})
	if err := e.WaitUsable(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	t.Run("pods end before what they use", func(t *testing.T) { podsFirst(t, e) })
	t.Run("an API that can only create is no obstacle", func(t *testing.T) {
		server := httptest.NewTLSServer(createOnly())
		defer server.Close()
		e.extension(t, "reviews.example.com", server.Listener.Addr().(*net.TCPAddr).Port)
		e.kubectl(t, "wait", "--for=condition=Available", "apiservice/v1.reviews.example.com", "--timeout=2m")
		ns := e.namespace(t, "besides-create-only")
		e.configMaps(t, ns, 2)
		e.kubectl(t, "delete", "namespace", ns, "--timeout=2m")
		e.nothingLeft(t, ns)
		e.kubectl(t, "delete", "apiservice", "v1.reviews.example.com")
	})
	t.Run("what an API holds that knows nothing but JSON is deleted", func(t *testing.T) { plainAPI(t, e) })
	t.Run("a kind that is new a moment ago is deleted, too", func(t *testing.T) {
		ns := e.namespace(t, "besides-new")
		e.apply(t, widgetKinds)
		e.kubectl(t, "wait", "--for=condition=Established", "crd/widgets.example.com", "crd/trinkets.example.com", "--timeout=2m")
		e.custom(t, ns, "Widget", "widget", 5, 4)
		e.kubectl(t, "delete", "namespace", ns, "--timeout=20s")
		e.nothingLeft(t, ns)
	})
	t.Run("an object that must not be deleted keeps a namespace, but no other object", func(t *testing.T) { keptObject(t, e) })
	t.Run("a dead API keeps a namespace, but not its content", func(t *testing.T) { deadAPI(t, e) })
	t.Run("many at once", func(t *testing.T) {
		const n = 40
		for i := range n {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), Labels: map[string]string{"many": "yes"}}}
			must(e.Client().CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}))(t)
		}
		begin := time.Now()
		e.kubectl(t, "delete", "namespace", "-l", "many=yes", "--timeout=3m")
		took := time.Since(begin)
		t.Logf("%d namespaces in %v", n, took)
		if limit := 30 * time.Second * slowness(t); took > limit {
			t.Errorf("%d namespaces took %v, want at most %v", n, took, limit)
		}
	})
}

func podsFirst(t *testing.T, e *env) {
	ns := e.namespace(t, "ordered")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"localcluster.orrery/terminate-after": "3s"}}, Spec: podSpec("fake:1")}
	must(e.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	e.configMaps(t, ns, 1)
	eventually(t, "pod runs", func() error {
		pod := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}))(t)
		return differ("phase", pod.Status.Phase, corev1.PodRunning)
	})
	begin := time.Now()
	e.kubectl(t, "delete", "namespace", ns, "--wait=false")
	eventually(t, "ConfigMap gone", func() error {
		_, err := e.Client().CoreV1().ConfigMaps(ns).Get(t.Context(), "held-0", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("there"), err)
		}
		if _, err := e.Client().CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the ConfigMap went before the pod: %v", err)
		}
		return nil
	})
	e.nothingLeft(t, ns)
	if took := time.Since(begin); took < 5*time.Second {
		t.Errorf("gone after %v: other API servers had no time to see the deletion", took)
	}
}

// keptObject deletes a namespace with several pages of objects, one of which a policy keeps.
func keptObject(t *testing.T, e *env) {
	e.expect("denied request: it is kept")
	ns := e.namespace(t, "besides-kept")
	e.configMaps(t, ns, 250)
	lift := e.enforce(t, policy{
		name: "keep", resource: "configmaps", operation: "DELETE", allow: `oldObject.metadata.name != "held-142"`, message: "it is kept",
	}, "-n", ns, "delete", "configmap", "held-142")
	e.kubectl(t, "delete", "namespace", ns, "--wait=false")
	eventually(t, "all others are gone, and the condition says why this one is not", func() error {
		left := e.kubectl(t, "-n", ns, "get", "configmaps,secrets,serviceaccounts", "-o", "name")
		message := e.kubectl(t, "get", "namespace", ns, "-o", `jsonpath={.status.conditions[?(@.type=="NamespaceDeletionContentFailure")].message}`)
		return errors.Join(
			differ("what is left", strings.TrimSpace(left), "configmap/held-142"),
			differ("the condition says it", strings.HasSuffix(message, "denied request: it is kept"), true))
	})
	lift()
	e.nothingLeft(t, ns)
}

// extension registers an API that is served on a port of this machine.
func (e *env) extension(t *testing.T, group string, port int) {
	t.Helper()
	name := strings.ReplaceAll(group, ".", "-")
	e.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.%[2]s}
spec:
  group: %[2]s
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: %[1]s, namespace: default, port: %[3]d}
`, name, group, port))
}

// createOnly serves an API whose only resource supports no verb but create, with discovery as in API servers that did not
// list all groups in one response yet.
func createOnly() http.Handler {
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
	}
	answer("/apis/reviews.example.com", `{"kind":"APIGroup","apiVersion":"v1","name":"reviews.example.com",
		"versions":[{"groupVersion":"reviews.example.com/v1","version":"v1"}],
		"preferredVersion":{"groupVersion":"reviews.example.com/v1","version":"v1"}}`)
	answer("/apis/reviews.example.com/v1", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"reviews.example.com/v1",
		"resources":[{"name":"reviews","singularName":"review","kind":"Review","namespaced":true,"verbs":["create"]}]}`)
	mux.HandleFunc("/apis", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotAcceptable) })
	return mux
}

// plainAPI deletes a namespace with objects of a handmade API that has two resources of one kind.
func plainAPI(t *testing.T, e *env) {
	ns := e.namespace(t, "besides-plain")
	shelf := &shelf{namespace: ns, held: map[string]bool{"gadgets/a": true, "gadgets/b": true, "gizmos/c": true}}
	server := httptest.NewTLSServer(shelf.handler())
	defer server.Close()
	e.extension(t, "plain.example.com", server.Listener.Addr().(*net.TCPAddr).Port)
	defer e.kubectl(t, "delete", "apiservice", "v1.plain.example.com")
	e.kubectl(t, "wait", "--for=condition=Available", "apiservice/v1.plain.example.com", "--timeout=2m")
	e.kubectl(t, "delete", "namespace", ns, "--timeout=40s")
	shelf.mu.Lock()
	defer shelf.mu.Unlock()
	if len(shelf.held) != 0 {
		t.Errorf("left behind: %v", shelf.held)
	}
}

// shelf holds objects of one namespace. It responds with whole objects in JSON whatever is requested, and reads nothing
// else.
type shelf struct {
	namespace string

	mu   sync.Mutex      // guards held
	held map[string]bool // "<resource>/<name>"
}

func (s *shelf) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
	}
	answer("/apis/plain.example.com", `{"kind":"APIGroup","apiVersion":"v1","name":"plain.example.com",
		"versions":[{"groupVersion":"plain.example.com/v1","version":"v1"}],
		"preferredVersion":{"groupVersion":"plain.example.com/v1","version":"v1"}}`)
	answer("/apis/plain.example.com/v1", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"plain.example.com/v1","resources":[
		{"name":"gadgets","singularName":"gadget","kind":"Gadget","namespaced":true,"verbs":["delete","get","list"]},
		{"name":"gizmos","singularName":"gizmo","kind":"Gadget","namespaced":true,"verbs":["delete","get","list"]}]}`)
	mux.HandleFunc("/apis", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotAcceptable) })
	mux.HandleFunc("GET /apis/plain.example.com/v1/namespaces/{ns}/{resource}", s.list)
	mux.HandleFunc("DELETE /apis/plain.example.com/v1/namespaces/{ns}/{resource}/{name}", s.remove)
	return mux
}

func (s *shelf) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []string
	for id := range s.held {
		if resource, name, _ := strings.Cut(id, "/"); resource == r.PathValue("resource") && s.namespace == r.PathValue("ns") {
			items = append(items, fmt.Sprintf(`{"apiVersion":"plain.example.com/v1","kind":"Gadget","metadata":{"namespace":%q,"name":%q,"uid":%q}}`, s.namespace, name, name))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"apiVersion":"plain.example.com/v1","kind":"GadgetList","metadata":{"resourceVersion":"1"},"items":[%s]}`, strings.Join(items, ","))
}

func (s *shelf) remove(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	delete(s.held, r.PathValue("resource")+"/"+r.PathValue("name"))
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
}

func deadAPI(t *testing.T, e *env) {
	e.expect(`dead\.example\.com`)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	e.extension(t, "dead.example.com", port)
	e.kubectl(t, "wait", "--for=condition=Available=False", "apiservice/v1.dead.example.com", "--timeout=2m")
	ns := e.namespace(t, "besides-dead")
	e.rollOut(t, ns, "web", 2)
	e.configMaps(t, ns, 2)

	e.kubectl(t, "-n", ns, "delete", "deployment", "web")
	e.empty(t, ns, "pods") // the garbage collector works on

	e.rollOut(t, ns, "web", 2)
	e.kubectl(t, "delete", "namespace", ns, "--wait=false")
	e.empty(t, ns, "pods", "deployments", "replicasets", "configmaps", "serviceaccounts")
	eventually(t, "the condition says why", func() error {
		namespace := must(e.Client().CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}))(t)
		for _, c := range namespace.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "dead.example.com") {
				return differ("finalizers", len(namespace.Spec.Finalizers), 1)
			}
		}
		return fmt.Errorf("conditions %+v", namespace.Status.Conditions)
	})
	e.kubectl(t, "delete", "apiservice", "v1.dead.example.com")
	e.nothingLeft(t, ns)
}
