package cache

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery/kit/client"
)

// TestSizesAreThoseOfTheHeap compares what is estimated of an object with what a thousand of its kind take.
func TestSizesAreThoseOfTheHeap(t *testing.T) {
	text := func(s string) string { return strings.Clone(s) } // literals are not on the heap
	meta := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: fmt.Sprintf("an-object-%d", i), Namespace: text("default"), UID: "a-uid",
			Labels: map[string]string{text("app"): text("web"), text("tier"): text("front")},
		}
	}
	for name, build := range map[string]func(int) client.Object{
		"pod": func(i int) client.Object {
			return &corev1.Pod{ObjectMeta: meta(i), Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}}
		},
		"config map": func(i int) client.Object {
			return &corev1.ConfigMap{ObjectMeta: meta(i), Data: map[string]string{text("key"): strings.Repeat("x", 5000)}}
		},
		"unstructured": func(i int) client.Object {
			return &unstructured.Unstructured{Object: map[string]any{text("spec"): map[string]any{text("data"): strings.Repeat("x", 3000), text("n"): int64(i)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 1000
			all := make([]client.Object, n)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range all {
				all[i] = build(i)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			real := float64(after.HeapAlloc-before.HeapAlloc) / n
			guess := float64(deepSize(reflect.ValueOf(all[n/2])))
			runtime.KeepAlive(all)
			if guess < 0.6*real || guess > 1.4*real {
				t.Errorf("estimated at %.0f bytes, takes %.0f", guess, real)
			}
		})
	}
}
