package kittest

import (
	"net/http"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit/client"
)

// tokenLife is the lifetime of issued tokens.
const tokenLife = time.Hour

// serveSubresource carries out a call to a subresource that is not a part of its object.
func (a *API) serveSubresource(w *write, r *Request) (answer, error) {
	if r.Subresource == "scale" && !r.kind.scale {
		return answer{}, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Verb, r.Resource.GroupResource(), r.Name, "", 0, true)
	}
	cur, err := w.current(r.Key())
	if err != nil {
		return answer{}, err
	}
	switch r.Subresource + " " + r.Verb {
	case "scale get":
		return answer{code: http.StatusOK, doc: scaleOf(cur)}, nil
	case "scale update":
		n, _, _ := unstructured.NestedInt64(r.Object.Object, "spec", "replicas")
		return a.rescale(w, cur, r, n)
	case "scale patch":
		o, err := w.patch(r.Key(), types.MergePatchType, r.Patch, "")
		if err != nil {
			return answer{}, err
		}
		return answer{code: http.StatusOK, doc: scaleOf(o)}, nil
	case "token create":
		out := r.Object
		setField(out, "token-of-"+r.Name, "status", "token")
		setField(out, time.Now().Add(tokenLife).UTC().Format(time.RFC3339), "status", "expirationTimestamp")
		return answer{code: http.StatusCreated, doc: out.Object}, nil
	case "binding create":
		next := cur.DeepCopy()
		node, _, _ := unstructured.NestedString(r.Object.Object, "target", "name")
		setField(next, node, "spec", "nodeName")
		w.put(next)
		return answer{code: http.StatusCreated, doc: success()}, nil
	case "eviction create":
		return a.evict(w, r, cur)
	}
	return answer{}, apierrors.NewMethodNotSupported(r.kind.groupResource(), r.Verb+" "+r.Subresource)
}

func success() metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}
}

func scaleOf(o *unstructured.Unstructured) map[string]any {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	out.SetName(o.GetName())
	out.SetNamespace(o.GetNamespace())
	out.SetUID(o.GetUID())
	out.SetResourceVersion(o.GetResourceVersion())
	out.SetCreationTimestamp(o.GetCreationTimestamp())
	spec, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	status, _, _ := unstructured.NestedInt64(o.Object, "status", "replicas")
	setField(out, spec, "spec", "replicas")
	setField(out, status, "status", "replicas")
	if raw, ok, _ := unstructured.NestedMap(o.Object, "spec", "selector"); ok {
		setField(out, selectorText(raw), "status", "selector")
	}
	return out.Object
}

func (a *API) rescale(w *write, cur *unstructured.Unstructured, r *Request, n int64) (answer, error) {
	next := cur.DeepCopy()
	setField(next, n, "spec", "replicas")
	next.SetResourceVersion(r.Object.GetResourceVersion())
	o, err := w.update(next, "")
	if err != nil {
		return answer{}, err
	}
	return answer{code: http.StatusOK, doc: scaleOf(o)}, nil
}

// evict deletes a pod unless a disruption budget that selects it allows no disruption.
func (a *API) evict(w *write, r *Request, pod *unstructured.Unstructured) (answer, error) {
	budgets := a.store.table(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"})
	for _, b := range budgets.list(selection{namespace: r.Namespace}) {
		raw, _, _ := unstructured.NestedMap(b.Object, "spec", "selector")
		allowed, _, _ := unstructured.NestedInt64(b.Object, "status", "disruptionsAllowed")
		if selects(raw, pod.GetLabels()) && allowed <= 0 {
			return answer{}, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
	}
	if _, _, err := w.delete(client.KeyOf(pod), metav1.DeleteOptions{}); err != nil {
		return answer{}, err
	}
	return answer{code: http.StatusCreated, doc: success()}, nil
}
