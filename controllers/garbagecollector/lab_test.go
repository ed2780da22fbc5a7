package garbagecollector

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

// lab is an API in memory with the collector running on it.
type lab struct {
	*kittest.API
	t       *testing.T
	o       *options
	running *kittest.Running

	mu     sync.Mutex // guards errors
	errors []string   // logged by the collector
}

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func newLab(t *testing.T, objs ...client.Object) *lab {
	l := &lab{API: kittest.New(t, objs...), t: t, o: &options{enabled: true, workers: 20}}
	l.AddKind(widgetKind, "widgets", true)
	return l
}

// start runs the collector, to the end of the test or the next start.
func (l *lab) start() {
	l.t.Helper()
	l.stop()
	cc := l.Context(Name, Descriptor().RBAC...)
	cc.Log = funcr.New(func(prefix, args string) {
		l.t.Log(prefix, args)
		if !strings.Contains(args, `"level"=`) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.errors = append(l.errors, args)
		}
	}, funcr.Options{Verbosity: 4})
	l.running = l.RunIn(l.t, cc, l.o.init)
	l.Settle()
}

func (l *lab) stop() {
	if l.running != nil {
		l.running.Stop()
	}
}

// noErrors fails the test if the collector has logged an error.
func (l *lab) noErrors() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.errors {
		l.t.Errorf("logged as an error: %s", e)
	}
}

// add creates objects.
func (l *lab) add(objs ...client.Object) {
	l.t.Helper()
	for _, o := range objs {
		l.Create(l.t, o)
	}
}

// deleteIn deletes an object with a policy.
func (l *lab) deleteIn(policy metav1.DeletionPropagation, obj client.Object) {
	l.t.Helper()
	l.DeleteWith(l.t, obj, metav1.DeleteOptions{PropagationPolicy: &policy})
}

// gone and kept check which objects exist.
func (l *lab) gone(objs ...client.Object) {
	l.t.Helper()
	for _, o := range objs {
		if l.exists(o) {
			l.t.Errorf("%T %s is still there", o, client.KeyOf(o))
		}
	}
}

func (l *lab) kept(objs ...client.Object) {
	l.t.Helper()
	for _, o := range objs {
		if !l.exists(o) {
			l.t.Errorf("%T %s is gone", o, client.KeyOf(o))
		}
	}
}

func (l *lab) exists(obj client.Object) bool {
	now := obj.DeepCopyObject().(client.Object)
	return l.Get(l.t, now) && now.GetUID() == obj.GetUID()
}

// owners returns the names of an object's owners as they are now.
func (l *lab) owners(obj client.Object) string {
	l.t.Helper()
	now := obj.DeepCopyObject().(client.Object)
	if !l.Get(l.t, now) {
		l.t.Errorf("%s is gone", client.KeyOf(obj))
	}
	var names []string
	for _, r := range now.GetOwnerReferences() {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: owners}}
}

func pod(name string, owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: owners},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func volume(name string, owners ...metav1.OwnerReference) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
}

func widget(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(widgetKind)
	u.SetNamespace("default")
	u.SetName(name)
	u.SetOwnerReferences(owners)
	return u
}

// by returns a reference to an owner that has been created.
func by(owner client.Object) metav1.OwnerReference {
	ref := metav1.OwnerReference{Name: owner.GetName(), UID: owner.GetUID(), APIVersion: "v1"}
	switch o := owner.(type) {
	case *corev1.ConfigMap:
		ref.Kind = "ConfigMap"
	case *corev1.Pod:
		ref.Kind = "Pod"
	case *corev1.PersistentVolume:
		ref.Kind = "PersistentVolume"
	case *unstructured.Unstructured:
		ref.APIVersion, ref.Kind = o.GetAPIVersion(), o.GetKind()
	}
	return ref
}

// blocking returns the reference with the mark that makes the owner wait.
func blocking(ref metav1.OwnerReference) metav1.OwnerReference {
	yes := true
	ref.BlockOwnerDeletion = &yes
	return ref
}

const resyncWait = resyncPeriod + time.Second
