package scenarios

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TestAnOwnerDoesNotWaitForAKindThatIsGone deletes an owner in the foreground whose dependent keeps it waiting, and then
// stops serving the dependent's kind: no watch will show the dependent's end.
func TestAnOwnerDoesNotWaitForAKindThatIsGone(t *testing.T) {
	t.Parallel()
	e := anywhere(t, 0)
	e.expect(`Failed to watch.*sprockets\.example\.com`)
	ns := e.namespace(t, "gone-kind")
	e.defineKind(t, "Sprocket")
	maps := e.Client().CoreV1().ConfigMaps(ns)
	owner := must(maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{}))(t)
	all := must(dynamic.NewForConfig(e.RESTConfig()))(t).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sprockets"}).Namespace(ns)
	yes := true
	sprocket := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Sprocket", "metadata": map[string]any{"name": "s"}}}
	sprocket.SetFinalizers([]string{"example.com/slow"})
	sprocket.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: &yes}})
	eventually(t, "sprocket made", func() error {
		_, err := all.Create(t.Context(), sprocket, metav1.CreateOptions{})
		return err
	})
	time.Sleep(35 * time.Second) // until the kind has been discovered
	foreground := metav1.DeletePropagationForeground
	if err := maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the dependent is being deleted", func() error {
		s, err := all.Get(t.Context(), "s", metav1.GetOptions{})
		if err == nil && s.GetDeletionTimestamp() == nil {
			return errors.New("it is not")
		}
		return err
	})
	must(maps.Get(t.Context(), owner.Name, metav1.GetOptions{}))(t)

	serve := func(on string) {
		e.kubectl(t, "patch", "crd", "sprockets.example.com", "--type=json", "-p", `[{"op":"replace","path":"/spec/versions/0/served","value":`+on+`}]`)
	}
	serve("false")
	e.gone(t, "configmaps", ns, owner.Name)

	serve("true")
	eventually(t, "the dependent is let go", func() error {
		_, err := all.Patch(t.Context(), "s", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	e.kubectl(t, "delete", "crd", "sprockets.example.com", "--timeout=2m")
}
