package kittest_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

// eachAPI runs a test over the API in memory and, where KUBECONFIG names a cluster without a controller manager, over
// the real one: what this package claims of the API is checked against it.
func eachAPI(t *testing.T, test func(t *testing.T, ctx context.Context, c *client.Client, ns string)) {
	t.Run("kittest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := kittest.New(t).Client("test")
			ns := must(client.Create[corev1.Namespace](t.Context(), c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kittest-"}}))
			test(t, t.Context(), c, ns.Name)
		})
	})
	t.Run("live", func(t *testing.T) {
		path := os.Getenv("KUBECONFIG")
		if path == "" {
			t.Skip("needs a cluster: set KUBECONFIG, for example to that of hack/localcluster")
		}
		config := must(clientcmd.BuildConfigFromFlags("", path))
		config.QPS = -1
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(must(discovery.NewDiscoveryClientForConfig(config))))
		c := must(client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper}))
		ns := must(client.Create[corev1.Namespace](t.Context(), c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kittest-"}}))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := client.Delete(ctx, c, ns); err != nil {
				t.Error(err)
			}
		})
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns.Name}}
		if _, err := client.Create(t.Context(), c, account); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		test(t, t.Context(), c, ns.Name)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func fullSet(ns string, n int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "web-", Labels: labels},
		Spec: appsv1.ReplicaSetSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}},
	}
}

func TestStatusAndSpecAreWrittenApart(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		in := fullSet(ns, 1)
		in.Status.Replicas = 5
		rs := must(client.Create[appsv1.ReplicaSet](ctx, c, in))
		if rs.Generation != 1 || rs.Status.Replicas != 0 || rs.UID == "" || len(rs.Name) != len("web-")+5 {
			t.Errorf("created as %q, generation %d, status %d", rs.Name, rs.Generation, rs.Status.Replicas)
		}
		next := rs.DeepCopy()
		*next.Spec.Replicas, next.Status.Replicas = 2, 7
		rs = must(client.Update[appsv1.ReplicaSet](ctx, c, next))
		if rs.Generation != 2 || rs.Status.Replicas != 0 {
			t.Errorf("after an update: generation %d, status %d", rs.Generation, rs.Status.Replicas)
		}
		next = rs.DeepCopy()
		*next.Spec.Replicas, next.Status.Replicas, next.Annotations = 3, 7, map[string]string{"a": "b"}
		rs = must(client.UpdateStatus[appsv1.ReplicaSet](ctx, c, next))
		if rs.Generation != 2 || rs.Status.Replicas != 7 || *rs.Spec.Replicas != 2 {
			t.Errorf("after a status update: generation %d, status %d, spec %d", rs.Generation, rs.Status.Replicas, *rs.Spec.Replicas)
		}
		if rs.Annotations["a"] != "b" {
			t.Errorf("after a status update: annotations %v", rs.Annotations)
		}
		same := must(client.Update[appsv1.ReplicaSet](ctx, c, rs))
		if same.ResourceVersion != rs.ResourceVersion {
			t.Error("an update that changes nothing made a new version")
		}
		next = rs.DeepCopy()
		next.Labels["x"] = "y"
		if rs = must(client.Update[appsv1.ReplicaSet](ctx, c, next)); rs.Generation != 2 {
			t.Errorf("after new labels: generation %d", rs.Generation)
		}
	})
}

func TestWritersThatAreLateAreRefused(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		rs := must(client.Create[appsv1.ReplicaSet](ctx, c, fullSet(ns, 1)))
		if _, err := client.Create(ctx, c, rs); !apierrors.IsInternalError(err) {
			t.Errorf("create with a version: %v", err)
		}
		next := rs.DeepCopy()
		*next.Spec.Replicas = 2
		must(client.Update[appsv1.ReplicaSet](ctx, c, next))
		if _, err := client.UpdateStatus(ctx, c, next); !apierrors.IsConflict(err) {
			t.Errorf("status update of an old version: %v", err)
		}
		next.ResourceVersion, next.UID = "", "00000000-0000-0000-0000-000000000000"
		if _, err := client.Update(ctx, c, next); !apierrors.IsConflict(err) {
			t.Errorf("update of another UID: %v", err)
		}
		next.UID = ""
		if _, err := client.Update(ctx, c, next); err != nil {
			t.Errorf("update without a version: %v", err)
		}
		next.Name = "missing"
		if _, err := client.Update(ctx, c, next); !apierrors.IsNotFound(err) {
			t.Errorf("update of nothing: %v", err)
		}
	})
}

func TestFinalizersKeepAnObject(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		for _, p := range []struct {
			name string
			opt  client.Option
			want []string
		}{
			{"plain", client.Background, []string{"kit.test/a"}},
			{"foreground", client.Foreground, []string{"kit.test/a", metav1.FinalizerDeleteDependents}},
			{"orphan", client.Orphan, []string{"kit.test/a", metav1.FinalizerOrphanDependents}},
		} {
			in := fullSet(ns, 1)
			in.Finalizers = []string{"kit.test/a"}
			rs := must(client.Create[appsv1.ReplicaSet](ctx, c, in))
			if err := client.Delete(ctx, c, rs, p.opt); err != nil {
				t.Fatal(err)
			}
			rs = must(client.Get[appsv1.ReplicaSet](ctx, c, client.KeyOf(rs)))
			if rs.DeletionTimestamp == nil || rs.Generation != 2 || len(rs.Finalizers) != len(p.want) || rs.Finalizers[len(rs.Finalizers)-1] != p.want[len(p.want)-1] {
				t.Errorf("%s: deletion %v, generation %d, finalizers %v", p.name, rs.DeletionTimestamp, rs.Generation, rs.Finalizers)
			}
			next := rs.DeepCopy()
			next.Finalizers = append(next.Finalizers, "kit.test/b")
			if _, err := client.Update(ctx, c, next); !apierrors.IsInvalid(err) {
				t.Errorf("%s: a new finalizer on a dying object: %v", p.name, err)
			}
			next.Finalizers = nil
			if _, err := client.Update(ctx, c, next); err != nil {
				t.Errorf("%s: removing the finalizers: %v", p.name, err)
			}
			if _, err := client.Get[appsv1.ReplicaSet](ctx, c, client.KeyOf(rs)); !apierrors.IsNotFound(err) {
				t.Errorf("%s: after the last finalizer: %v", p.name, err)
			}
		}
	})
}

func TestARunningPodIsGivenTime(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		pod := func(name, node string) *corev1.Pod {
			return must(client.Create[corev1.Pod](ctx, c, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
				Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			}))
		}
		get := func(p *corev1.Pod) (*corev1.Pod, error) { return client.Get[corev1.Pod](ctx, c, client.KeyOf(p)) }
		waiting, running := pod("waiting", ""), pod("running", "no-such-node")
		if running.Generation != 1 || running.Status.Phase != corev1.PodPending {
			t.Errorf("created with generation %d in phase %s", running.Generation, running.Status.Phase)
		}
		for _, p := range []*corev1.Pod{waiting, running} {
			if err := client.Delete(ctx, c, p, client.IfUID(p.UID)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := get(waiting); !apierrors.IsNotFound(err) {
			t.Errorf("a pod without a node: %v", err)
		}
		left := must(get(running))
		if left.DeletionTimestamp == nil || left.DeletionGracePeriodSeconds == nil || *left.DeletionGracePeriodSeconds != 30 {
			t.Fatalf("a pod on a node: deletion %v, grace %v", left.DeletionTimestamp, left.DeletionGracePeriodSeconds)
		}
		patched := must(client.PatchObject[corev1.Pod](ctx, c, left, client.StrategicPatch([]byte(`{"status":{"phase":"Succeeded"}}`)), client.Status))
		if patched.Status.Phase != corev1.PodSucceeded || patched.DeletionTimestamp == nil {
			t.Errorf("patched to %s", patched.Status.Phase)
		}
		if err := client.Delete(ctx, c, left, client.GracePeriod(0)); err != nil {
			t.Error(err)
		}
		if _, err := get(running); !apierrors.IsNotFound(err) {
			t.Errorf("after a delete without grace: %v", err)
		}
	})
}

func TestANamespaceThatGoesTakesNothingNew(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, _ string) {
		ns := must(client.Create[corev1.Namespace](ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "going-"}}))
		if ns.Labels[corev1.LabelMetadataName] != ns.Name || len(ns.Spec.Finalizers) != 1 {
			t.Errorf("created with labels %v, finalizers %v", ns.Labels, ns.Spec.Finalizers)
		}
		if err := client.Delete(ctx, c, ns); err != nil {
			t.Fatal(err)
		}
		if ns = must(client.Get[corev1.Namespace](ctx, c, client.KeyOf(ns))); ns.Status.Phase != corev1.NamespaceTerminating {
			t.Errorf("phase %s", ns.Status.Phase)
		}
		_, err := client.Create(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "late"}})
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("create in it: %v", err)
		}
		next := ns.DeepCopy()
		next.Spec.Finalizers = nil
		if _, err := client.Update(ctx, c, next, client.Subresource("finalize")); err != nil {
			t.Errorf("finalize: %v", err)
		}
		if _, err := client.Get[corev1.Namespace](ctx, c, client.KeyOf(ns)); !apierrors.IsNotFound(err) {
			t.Errorf("after finalizing: %v", err)
		}
	})
}
