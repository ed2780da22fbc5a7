package kittest_test

import (
	"context"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

var podsByOwner = cache.Index[*corev1.Pod]{Name: "owner", Keys: func(p *corev1.Pod) []string {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}}

// tiny is a replica set controller with nothing left out but the difficult parts.
type tiny struct {
	client *client.Client
	pods   cache.Store[*corev1.Pod]
}

func (r *tiny) Reconcile(ctx context.Context, rs *appsv1.ReplicaSet) (kit.Result, error) {
	have := r.pods.By(podsByOwner, string(rs.UID))
	for i := len(have); i < int(*rs.Spec.Replicas); i++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			GenerateName: rs.Name + "-", Namespace: rs.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}}
		if _, err := client.Create(ctx, r.client, pod); err != nil {
			return kit.Done, err
		}
	}
	for i := int(*rs.Spec.Replicas); i < len(have); i++ {
		if err := client.Delete(ctx, r.client, have[i], client.IfUID(have[i].UID)); err != nil {
			return kit.Done, client.IgnoreNotFound(err)
		}
	}
	if rs.Status.Replicas == *rs.Spec.Replicas {
		return kit.Done, nil
	}
	next := rs.DeepCopy()
	next.Status.Replicas = *rs.Spec.Replicas
	_, err := client.UpdateStatus(ctx, r.client, next)
	return kit.Done, err
}

func tinyDescriptor() kit.Descriptor {
	return kit.Descriptor{
		Name: "tiny",
		RBAC: []rbacv1.PolicyRule{
			{Verbs: []string{"create", "delete"}, APIGroups: []string{""}, Resources: []string{"pods"}},
			{Verbs: []string{"update"}, APIGroups: []string{"apps"}, Resources: []string{"replicasets/status"}},
		},
		Init: func(cc kit.ControllerContext) (bool, error) {
			r := &tiny{client: cc.Client, pods: kit.Store(cc, podsByOwner)}
			sets := kit.Store[appsv1.ReplicaSet](cc)
			return true, kit.NewController(cc, kit.Objects(sets, r)).
				Watch(kit.For[appsv1.ReplicaSet](), kit.Owns[corev1.Pod, appsv1.ReplicaSet]()).Workers(3).Complete()
		},
	}
}

func replicaSet(name string, n int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: &n}}
}

func TestAControllerRunsOverTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := replicaSet("web", 2)
		api := kittest.New(t, rs)
		api.Run(t, tinyDescriptor())
		api.Settle()
		api.Expect(t,
			"create v1/pods default/web-bbbbd", "create v1/pods default/web-bbbbg", "update apps/v1/replicasets/status default/web")

		*rs.Spec.Replicas = 1
		api.Update(t, rs)
		api.Settle()
		if got := kittest.List[corev1.Pod](t, api, "default"); len(got) != 1 {
			t.Errorf("%d pods after scaling down, want 1", len(got))
		}
	})
}

func TestScript(t *testing.T) {
	kittest.Script(t, "testdata/scale.txtar", tinyDescriptor())
}
