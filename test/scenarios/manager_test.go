package scenarios

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery/hack/localcluster/cluster"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/manager"
	"orrery/kit/webhook"
)

var gadgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}

const gadgetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// inProcess makes a manager in this process.
func (e *env) inProcess(t *testing.T, o manager.Options) *manager.Manager {
	t.Helper()
	o.Name = "scenario"
	m, err := manager.New(e.RESTConfig(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// runManager starts a manager; the returned function stops it and requires an orderly end.
func runManager(t *testing.T, m *manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// gadgetController writes the status of gadgets.
func gadgetController() kit.Descriptor {
	return kit.Descriptor{Name: "gadgets", Kinds: []schema.GroupVersionKind{gadgetKind}, Init: func(cc kit.ControllerContext) (bool, error) {
		r := kit.ObjectFunc[*unstructured.Unstructured](func(ctx context.Context, g *unstructured.Unstructured) (kit.Result, error) {
			if done, _, _ := unstructured.NestedBool(g.Object, "status", "done"); done {
				return kit.Done, nil
			}
			_, err := client.PatchObject(ctx, cc.Client, g, client.MergePatch([]byte(`{"status":{"done":true}}`)), client.Status)
			return kit.Done, err
		})
		store := kit.StoreOfKind[unstructured.Unstructured](cc, gadgetKind)
		return true, kit.NewController(cc, kit.Objects(store, r)).Watch(kit.For[unstructured.Unstructured]().OfKind(gadgetKind)).Complete()
	}}
}

// TestAKindThatComesAndGoes installs a CustomResourceDefinition after the start, removes it, and installs it again.
func TestAKindThatComesAndGoes(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true})
	m := e.inProcess(t, manager.Options{})
	if err := m.AddDescriptor(gadgetController()); err != nil {
		t.Fatal(err)
	}
	stop := runManager(t, m)
	ready := make(chan struct{})
	if err := m.Add(manager.Func("probe", func(context.Context) error { close(ready); return nil })); err != nil {
		t.Fatal(err)
	}
	<-ready
	if n := len(m.Controllers()); n != 0 {
		t.Errorf("%d controllers run without their kind", n)
	}
	for round := range 2 {
		e.apply(t, gadgetCRD)
		name := fmt.Sprint("g", round)
		eventually(t, "a gadget", func() error {
			g := &unstructured.Unstructured{}
			g.SetGroupVersionKind(gadgetKind)
			g.SetNamespace("default")
			g.SetName(name)
			_, err := client.Create(t.Context(), m.Client(), g)
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		eventually(t, "its status", func() error {
			g, err := client.Get[unstructured.Unstructured](t.Context(), m.Live(), client.Key{Namespace: "default", Name: name}, client.Kind(gadgetKind))
			if err != nil {
				return err
			}
			done, _, _ := unstructured.NestedBool(g.Object, "status", "done")
			return differ("done", done, true)
		})
		e.kubectl(t, "delete", "crd", "gadgets.example.com")
	}
	stop()
}

// TestWebhooksOfAManager has the API server call webhooks: defaults, rejections, warnings, panics under both failure
// policies, and a certificate that is replaced.
func TestWebhooksOfAManager(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true})
	certs := e.issue(t, "webhook")
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	m := e.inProcess(t, manager.Options{Webhook: &webhook.Options{CertDir: filepath.Dir(certs.certFile), Listener: listener, ReloadInterval: 1}})
	var asked atomic.Int32
	err := webhook.Add(m.Webhooks(), webhook.Handlers[*corev1.ConfigMap]{
		Default: func(_ context.Context, _ *webhook.Request, c *corev1.ConfigMap) error {
			asked.Add(1)
			if c.Data["mode"] == "" {
				if c.Data == nil {
					c.Data = map[string]string{}
				}
				c.Data["mode"] = "fast"
			}
			return nil
		},
		Validate: func(_ context.Context, r *webhook.Request, _, c *corev1.ConfigMap) ([]string, error) {
			switch c.Data["mode"] {
			case "panic":
				panic("poison")
			case "wrong":
				return nil, fmt.Errorf("%s of %s: the mode is wrong", r.Operation, r.UserInfo.Username)
			}
			return []string{"mode " + c.Data["mode"]}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	runManager(t, m)
	ca := must(os.ReadFile(e.PKI().CACert))(t)
	e.apply(t, configMapWebhooks(listener.Addr().String(), ca, "Fail"))
	var warned warnings
	config := e.RESTConfig()
	config.WarningHandler = &warned
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	try := func(mode string) (*corev1.ConfigMap, error) {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-", Labels: map[string]string{"hooked": "yes"}}}
		if mode != "" {
			c.Data = map[string]string{"mode": mode}
		}
		return maps.Create(t.Context(), c, metav1.CreateOptions{})
	}
	eventually(t, "a default", func() error {
		c, err := try("")
		return errors.Join(err, differ("mode", c.Data["mode"], "fast"))
	})
	if !slices.Contains(warned.list(), "mode fast") {
		t.Errorf("warnings: %q", warned.list())
	}
	if _, err := try("wrong"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the mode is wrong") {
		t.Errorf("a wrong one: %v", err)
	}
	if _, err := try("panic"); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a panic under Fail: %v", err)
	}
	e.apply(t, configMapWebhooks(listener.Addr().String(), ca, "Ignore"))
	eventually(t, "a panic under Ignore lets the object in", func() error { _, err := try("panic"); return err })
	if _, err := try("wrong"); !apierrors.IsForbidden(err) {
		t.Errorf("after a panic the webhook no longer answers: %v", err)
	}

	// Another authority signs the next certificate; the API server trusts only that one from then on.
	next := e.issue(t, "another")
	writeFile(t, certs.certFile, next.cert)
	writeFile(t, certs.keyFile, next.key)
	eventually(t, "the new certificate is served", func() error {
		e.apply(t, configMapWebhooks(listener.Addr().String(), next.cert, "Fail"))
		before := asked.Load()
		if _, err := try(""); err != nil {
			return err
		}
		if asked.Load() == before {
			return errors.New("the webhook was not asked")
		}
		return nil
	})
}

// warnings collects what the server warns of.
type warnings struct {
	mu    sync.Mutex // guards texts
	texts []string
}

var _ rest.WarningHandler = (*warnings)(nil)

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}

func configMapWebhooks(address string, ca []byte, policy string) string {
	hook := func(kind, path string) string {
		return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: configmaps}
webhooks:
- name: configmaps.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: %s
  clientConfig: {url: "https://%s%s", caBundle: %s}
  objectSelector: {matchLabels: {hooked: "yes"}}
  rules:
  - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}
`, kind, policy, address, path, base64.StdEncoding.EncodeToString(ca))
	}
	return hook("MutatingWebhookConfiguration", "/mutate--v1-configmap") + "---\n" + hook("ValidatingWebhookConfiguration", "/validate--v1-configmap")
}

// TestACacheOfSomeNamespaces has a cache of two namespaces, and of only some objects of one kind, in all three forms. In each
// it waits for its own writes.
func TestACacheOfSomeNamespaces(t *testing.T) {
	t.Parallel()
	e := start(t, cluster.Options{NoKwok: true})
	for _, ns := range []string{"one", "two", "three"} {
		e.kubectl(t, "create", "namespace", ns)
		e.kubectl(t, "-n", ns, "create", "configmap", "plain")
		e.kubectl(t, "-n", ns, "create", "configmap", "picked")
		e.kubectl(t, "-n", ns, "label", "configmap", "picked", "pick=me")
		e.kubectl(t, "-n", ns, "create", "serviceaccount", "robot")
	}
	mapKind, accountKind := corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	m := e.inProcess(t, manager.Options{Cache: manager.Cache{
		Namespaces: []string{"one", "two"}, Kinds: map[schema.GroupVersionKind]cache.Kind{mapKind: {Labels: "pick=me"}},
	}})
	maps := must(manager.Store[corev1.ConfigMap](m))(t)
	accounts := must(cache.OfKind[unstructured.Unstructured](m.Cache(), accountKind))(t)
	meta := must(cache.OfKind[metav1.PartialObjectMetadata](m.Cache(), mapKind))(t)
	namespaces := must(manager.Store[corev1.Namespace](m))(t)
	stop := runManager(t, m)
	eventually(t, "caches", func() error {
		return errors.Join(differ("config maps", maps.Len(), 2), differ("their metadata", meta.Len(), 2), differ("namespaces", min(namespaces.Len(), 7), 7),
			differ("of a namespace", len(maps.List("two")), 1), differ("robots", len(slices.DeleteFunc(accounts.List(""), func(a *unstructured.Unstructured) bool { return a.GetName() != "robot" })), 2))
	})
	var log client.WriteLog
	ctx := client.WithWriteLog(t.Context(), &log)
	for _, labels := range []map[string]string{{"pick": "me"}, nil} {
		if _, err := client.Create(ctx, m.Client(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "two", GenerateName: "n-", Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
	writes := log.Take()
	i := maps.Informer()
	if !i.Concerns(writes[0]) || i.Concerns(writes[1]) {
		t.Error("the informer does not know which writes it will show")
	}
	eventually(t, "the write is seen", func() error { return differ("seen", i.Seen(writes[0]), true) })
	if _, ok := maps.Get(writes[0].Key); !ok {
		t.Error("seen, and not there")
	}
	e.kubectl(t, "-n", "two", "label", "configmap", "picked", "pick-")
	eventually(t, "what is no longer selected goes", func() error {
		_, ok := maps.Get(client.Key{Namespace: "two", Name: "picked"})
		return differ("cached", ok, false)
	})
	stop()
}
