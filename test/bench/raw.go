package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"orrery/hack/localcluster/cluster"
)

// raw prints what the server does at most: how long a client that does nothing else takes to create the pods of the phase
// "pending", and to delete them, with one request each while no controller manager runs.
func raw(ctx context.Context, w io.Writer, c *cluster.Cluster, s settings) error {
	config := c.RESTConfig()
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	const ns = "bench-raw"
	if err := makeBareNamespace(ctx, client, ns); err != nil {
		return fmt.Errorf("raw client: %w", err)
	}
	pods := client.CoreV1().Pods(ns)
	labels := map[string]string{"app": "raw"}
	for _, atOnce := range []int{16, 64, 128} {
		name := func(i int) string { return fmt.Sprintf("raw-%d-%d", atOnce, i) }
		created, err := timed(atOnce, s.pending, func(i int) error {
			t := template(labels, "nobody")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name(i), Labels: labels}, Spec: t.Spec}
			_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("raw client: create pods: %w", err)
		}
		deleted, err := timed(atOnce, s.pending, func(i int) error { return pods.Delete(ctx, name(i), metav1.DeleteOptions{}) })
		if err != nil {
			return fmt.Errorf("raw client: delete pods: %w", err)
		}
		fmt.Fprintf(w, "raw client, %3d requests at once: %d pods created in %.2f s, deleted in %.2f s\n", atOnce, s.pending, created.Seconds(), deleted.Seconds())
	}
	return nil
}

// timed calls f for 0 to n-1, with so many calls at once, and returns how long that took.
func timed(atOnce, n int, f func(i int) error) (time.Duration, error) {
	begin := time.Now()
	work, failed := make(chan int), make([]error, atOnce)
	var all sync.WaitGroup
	for w := range atOnce {
		all.Go(func() {
			for i := range work {
				if err := f(i); err != nil {
					failed[w] = err
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	return time.Since(begin), errors.Join(failed...)
}

// makeBareNamespace makes a namespace, and the service account that no controller manager makes.
func makeBareNamespace(ctx context.Context, c kubernetes.Interface, name string) error {
	if err := createNamespace(ctx, c, name); err != nil {
		return err
	}
	_, err := c.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
