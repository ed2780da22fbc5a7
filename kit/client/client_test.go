package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

var (
	configMaps  = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	pods        = corev1.SchemeGroupVersion.WithKind("Pod")
	deployments = appsv1.SchemeGroupVersion.WithKind("Deployment")
)

// eachAPI runs a test over the API in memory and, where there is a cluster, over a real one, so that each vouches for
// the other.
func eachAPI(t *testing.T, test func(t *testing.T, ctx context.Context, c *client.Client, ns string)) {
	t.Run("kittest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, t.Context(), kittest.New(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}).Client("test"), "default")
		})
	})
	t.Run("live", func(t *testing.T) {
		ctx, c, ns := liveClient(t)
		test(t, ctx, c, ns)
	})
}

func settings(ns, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": "kit"}},
		Data:       map[string]string{"a": "1"},
	}
}

// must returns v; an error ends the test with the place where it came up.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestStructuredObjects(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		in := settings(ns, "typed")
		made := must(client.Create[corev1.ConfigMap](ctx, c, in))
		if made.UID == "" || in.UID != "" {
			t.Errorf("created with UID %q, input changed to %q", made.UID, in.UID)
		}
		if _, err := client.Create(ctx, c, in); !apierrors.IsAlreadyExists(err) {
			t.Errorf("second create: %v", err)
		}
		next := made.DeepCopy()
		next.Data["a"] = "2"
		updated := must(client.Update[corev1.ConfigMap](ctx, c, next))
		if _, err := client.Update(ctx, c, next); !apierrors.IsConflict(err) {
			t.Errorf("update of an old version: %v", err)
		}
		got := must(client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(in)))
		if got.Data["a"] != "2" || got.ResourceVersion != updated.ResourceVersion {
			t.Errorf("got %v at %s, want version %s", got.Data, got.ResourceVersion, updated.ResourceVersion)
		}
		must(client.Create[corev1.ConfigMap](ctx, c, settings(ns, "other")))
		listed := must(client.List[corev1.ConfigMap](ctx, c, client.InNamespace(ns), client.Labels("app=kit"), client.Limit(1)))
		if len(listed) != 2 {
			t.Errorf("listed %d objects in pages of one, want 2", len(listed))
		}
		one := must(client.List[corev1.ConfigMap](ctx, c, client.InNamespace(ns), client.Fields("metadata.name=typed")))
		if len(one) != 1 {
			t.Errorf("listed %d objects by field, want 1", len(one))
		}
		if err := client.Delete(ctx, c, got, client.IfUID("somebody-else")); !apierrors.IsConflict(err) {
			t.Errorf("delete of another UID: %v", err)
		}
		if err := client.Delete(ctx, c, got, client.IfVersion("1")); !apierrors.IsConflict(err) {
			t.Errorf("delete of another version: %v", err)
		}
		if err := client.Delete(ctx, c, got, client.IfUID(got.UID), client.IfVersion(got.ResourceVersion), client.Background); err != nil {
			t.Error(err)
		}
		if _, err := client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(in)); !apierrors.IsNotFound(err) {
			t.Errorf("get after delete: %v", err)
		}
		if err := client.DeleteAll[corev1.ConfigMap](ctx, c, client.InNamespace(ns), client.Labels("app=kit")); err != nil {
			t.Error(err)
		}
		left := must(client.List[corev1.ConfigMap](ctx, c, client.InNamespace(ns), client.Labels("app=kit")))
		if len(left) != 0 {
			t.Errorf("%d objects left after deleting the collection", len(left))
		}
	})
}

func TestUnstructuredObjects(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": "1"}}}
		u.SetGroupVersionKind(configMaps)
		u.SetNamespace(ns)
		u.SetName("free")
		made := must(client.Create[unstructured.Unstructured](ctx, c, u))
		made = must(client.PatchObject[unstructured.Unstructured](ctx, c, made, client.MergePatch([]byte(`{"data":{"b":"2"}}`))))
		got := must(client.Get[unstructured.Unstructured](ctx, c, client.KeyOf(u), client.Kind(configMaps)))
		if v, _, _ := unstructured.NestedString(got.Object, "data", "b"); v != "2" || got.GetResourceVersion() != made.GetResourceVersion() {
			t.Errorf("got %v", got.Object)
		}
		listed := must(client.List[unstructured.Unstructured](ctx, c, client.Kind(configMaps), client.InNamespace(ns)))
		if len(listed) != 1 || listed[0].GetKind() != "ConfigMap" {
			t.Errorf("listed %v", listed)
		}
		if err := client.Delete(ctx, c, got, client.IfUID(got.GetUID()), client.Foreground); err != nil {
			t.Error(err)
		}
	})
}

func TestMetadataOnlyObjects(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		in := settings(ns, "meta")
		must(client.Create[corev1.ConfigMap](ctx, c, in))
		got := must(client.Get[metav1.PartialObjectMetadata](ctx, c, client.KeyOf(in), client.Kind(configMaps)))
		if got.GroupVersionKind() != configMaps || got.Labels["app"] != "kit" {
			t.Errorf("got %v %v", got.GroupVersionKind(), got.Labels)
		}
		listed := must(client.List[metav1.PartialObjectMetadata](ctx, c, client.Kind(configMaps), client.InNamespace(ns)))
		if len(listed) != 1 || listed[0].GroupVersionKind() != configMaps {
			t.Errorf("listed %v", listed)
		}
		patch := client.MergePatch([]byte(`{"metadata":{"finalizers":["kit.test/hold"]}}`))
		held := must(client.PatchObject[metav1.PartialObjectMetadata](ctx, c, got, patch))
		if held.GroupVersionKind() != configMaps || len(held.Finalizers) != 1 {
			t.Errorf("patched to %v %v", held.GroupVersionKind(), held.Finalizers)
		}
		if err := client.Delete(ctx, c, held, client.IfUID(held.UID), client.Orphan); err != nil {
			t.Fatal(err)
		}
		marked := must(client.Get[metav1.PartialObjectMetadata](ctx, c, client.KeyOf(in), client.Kind(configMaps)))
		if marked.DeletionTimestamp == nil || len(marked.Finalizers) != 2 {
			t.Errorf("after an orphaning delete: deletion %v, finalizers %v", marked.DeletionTimestamp, marked.Finalizers)
		}
		patch = client.JSONPatch([]byte(`[{"op":"remove","path":"/metadata/finalizers"}]`))
		must(client.PatchObject[metav1.PartialObjectMetadata](ctx, c, marked, patch))
		if _, err := client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(in)); !apierrors.IsNotFound(err) {
			t.Errorf("get after the last finalizer went: %v", err)
		}
		must(client.Create[corev1.ConfigMap](ctx, c, settings(ns, "more")))
		if err := client.DeleteAll[metav1.PartialObjectMetadata](ctx, c, client.Kind(configMaps), client.InNamespace(ns)); err != nil {
			t.Error(err)
		}
	})
}

func TestPatches(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		d := must(client.Create[appsv1.Deployment](ctx, c, deployment(ns)))
		for _, p := range []struct {
			name  string
			patch client.Patch
			opts  []client.Option
		}{
			{"json", client.JSONPatch([]byte(`[{"op":"replace","path":"/spec/replicas","value":1}]`)), nil},
			{"merge", client.MergePatch([]byte(`{"spec":{"replicas":2}}`)), nil},
			{"strategic", client.StrategicPatch([]byte(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"b","image":"b"}]}}}}`)), nil},
			{"apply", client.ApplyPatch([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":4}}`)), []client.Option{client.FieldManager("kit"), client.Force}},
		} {
			before := *d.Spec.Replicas
			d = must(client.PatchObject[appsv1.Deployment](ctx, c, d, p.patch, p.opts...))
			if *d.Spec.Replicas == before {
				t.Errorf("%s patch: replicas are still %d", p.name, before)
			}
		}
		if len(d.Spec.Template.Spec.Containers) != 2 {
			t.Errorf("%d containers after a strategic patch that adds one to one", len(d.Spec.Template.Spec.Containers))
		}
		if _, err := client.PatchObject(ctx, c, d, client.MergePatch([]byte(`{"metadata":{"uid":"somebody-else"}}`))); !apierrors.IsInvalid(err) {
			t.Errorf("patch of another UID: %v", err)
		}
		status := must(client.PatchObject[appsv1.Deployment](ctx, c, d, client.MergePatch([]byte(`{"status":{"replicas":7},"spec":{"replicas":9}}`)), client.Status))
		if status.Status.Replicas != 7 || *status.Spec.Replicas != 4 {
			t.Errorf("status patch: status %d, spec %d", status.Status.Replicas, *status.Spec.Replicas)
		}
		next := status.DeepCopy()
		next.Status.Replicas = 8
		if s := must(client.UpdateStatus[appsv1.Deployment](ctx, c, next)); s.Status.Replicas != 8 {
			t.Errorf("status update: %d replicas", s.Status.Replicas)
		}
	})
}

func TestDryRunStoresNothing(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		var wrote client.WriteLog
		dry, logged := c.DryRun(), client.WithWriteLog(ctx, &wrote)
		made := must(client.Create[corev1.ConfigMap](logged, dry, settings(ns, "dry")))
		if _, err := client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(made)); !apierrors.IsNotFound(err) {
			t.Errorf("get after a dry create: %v", err)
		}
		real := must(client.Create[corev1.ConfigMap](ctx, c, settings(ns, "real")))
		next := real.DeepCopy()
		next.Data["a"] = "2"
		must(client.Update[corev1.ConfigMap](logged, dry, next))
		must(client.PatchObject[corev1.ConfigMap](logged, dry, real, client.MergePatch([]byte(`{"data":{"a":"3"}}`))))
		if err := client.Delete(logged, dry, real); err != nil {
			t.Error(err)
		}
		if err := client.DeleteAll[corev1.ConfigMap](logged, dry, client.InNamespace(ns)); err != nil {
			t.Error(err)
		}
		if got := must(client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(real))); got.ResourceVersion != real.ResourceVersion {
			t.Errorf("dry writes changed the object: %v", got.Data)
		}
		if w := wrote.Take(); len(w) > 0 {
			t.Errorf("dry writes were noted: %v", w)
		}
	})
}

func TestSubresources(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		d := must(client.Create[appsv1.Deployment](ctx, c, deployment(ns)))
		scale := must(client.Get[autoscalingv1.Scale](ctx, c, client.KeyOf(d), client.Kind(deployments), client.Subresource("scale")))
		scale.Spec.Replicas = 5
		scale = must(client.Update[autoscalingv1.Scale](ctx, c, scale, client.Kind(deployments), client.Subresource("scale")))
		if scale.Spec.Replicas != 5 {
			t.Errorf("scaled to %d", scale.Spec.Replicas)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		must(client.Create[corev1.Pod](ctx, c, pod))
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}}
		if _, err := client.Create(ctx, c, eviction, client.Kind(pods), client.Subresource("eviction")); err != nil {
			t.Errorf("evict: %v", err)
		}
		token := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}
		accounts := corev1.SchemeGroupVersion.WithKind("ServiceAccount")
		token = must(client.Create[authenticationv1.TokenRequest](ctx, c, token, client.Kind(accounts), client.Subresource("token")))
		if token.Status.Token == "" {
			t.Error("the token is empty")
		}
	})
}

func deployment(ns string) *appsv1.Deployment {
	one, labels := int32(0), map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}},
	}
}

func TestBriefWritesAnswerMetadataAndRefusals(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		var wrote client.WriteLog
		logged := client.WithWriteLog(ctx, &wrote)
		made := must(client.Create[corev1.ConfigMap](logged, c, settings(ns, "brief"), client.Brief))
		if made.UID == "" || made.ResourceVersion == "" || made.Name != "brief" || made.Data != nil {
			t.Errorf("created %+v", made)
		}
		patched := must(client.PatchObject[corev1.ConfigMap](logged, c, made, client.MergePatch([]byte(`{"data":{"a":"2"}}`)), client.Brief))
		notes := wrote.Take()
		if len(notes) != 2 || notes[1].ResourceVersion != patched.ResourceVersion || notes[1].UID != made.UID || notes[1].Unknown {
			t.Errorf("noted %+v", notes)
		}
		if got := must(client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(made))); got.Data["a"] != "2" || got.ResourceVersion != patched.ResourceVersion {
			t.Errorf("stored %v at %s, answered %s", got.Data, got.ResourceVersion, patched.ResourceVersion)
		}
		if _, err := client.Create(logged, c, settings(ns, "brief"), client.Brief); !apierrors.IsAlreadyExists(err) {
			t.Errorf("second create: %v", err)
		}
		if notes := wrote.Take(); len(notes) != 0 {
			t.Errorf("a refusal was noted: %+v", notes)
		}
	})
}

func TestOnlyUncertainFailuresAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, f := range []struct {
			name     string
			reaction *kittest.Reaction
			noted    bool
		}{
			{"an answer that is lost", &kittest.Reaction{Drop: true}, true},
			{"a broken connection", &kittest.Reaction{Err: errors.New("connection reset by peer")}, true},
			{"a time-out of the server", kittest.Refuse(504, "timed out"), true},
			{"an internal error", kittest.Refuse(500, "webhook failed"), true},
			{"a conflict", kittest.Refuse(409, "modified"), false},
			{"a refusal", kittest.Refuse(403, "no"), false},
			{"an invalid object", kittest.Refuse(422, "no"), false},
			{"a call that was given up", &kittest.Reaction{Err: context.Canceled}, false},
		} {
			api := kittest.New(t, settings("default", "old"))
			api.React(func(*kittest.Request) *kittest.Reaction { return f.reaction })
			c := api.Client("test")
			var wrote client.WriteLog
			ctx := client.WithWriteLog(t.Context(), &wrote)
			_, created := client.Create(ctx, c, settings("default", "new"))
			_, patched := client.PatchObject(ctx, c, settings("default", "old"), client.MergePatch([]byte(`{"data":{"a":"9"}}`)))
			deleted := client.Delete(ctx, c, settings("default", "old"))
			if created == nil || patched == nil || deleted == nil {
				t.Errorf("%s: create %v, patch %v, delete %v", f.name, created, patched, deleted)
			}
			notes := wrote.Take()
			if f.noted != (len(notes) == 3) || !f.noted && len(notes) > 0 {
				t.Errorf("%s: noted %+v", f.name, notes)
			}
			for _, n := range notes {
				if !n.Unknown {
					t.Errorf("%s: noted as certain: %+v", f.name, n)
				}
			}
		}
	})
}
