package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// leftovers counts, by kind, what is left in a round's namespaces once all phases have deleted what they made.
func (b *bench) leftovers(ctx context.Context) (map[string]int, error) {
	left := map[string]int{}
	for kind, list := range listers(b.client) {
		n, err := list(ctx, func(namespace string) bool {
			return strings.HasPrefix(namespace, fmt.Sprintf("bench-%s-", b.kind)) && strings.HasSuffix(namespace, fmt.Sprintf("-%d", b.round))
		})
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", kind, err)
		}
		if n > 0 {
			left[kind] = n
		}
	}
	return left, nil
}

// lister counts the objects of a kind in the namespaces that are wanted.
type lister func(ctx context.Context, wanted func(namespace string) bool) (int, error)

func listers(c kubernetes.Interface) map[string]lister {
	all := metav1.ListOptions{}
	return map[string]lister{
		"pods": func(ctx context.Context, wanted func(string) bool) (int, error) {
			l, err := c.CoreV1().Pods("").List(ctx, all)
			return count(l.Items, wanted, func(i int) string { return l.Items[i].Namespace }), err
		},
		"replicasets": func(ctx context.Context, wanted func(string) bool) (int, error) {
			l, err := c.AppsV1().ReplicaSets("").List(ctx, all)
			return count(l.Items, wanted, func(i int) string { return l.Items[i].Namespace }), err
		},
		"statefulsets": func(ctx context.Context, wanted func(string) bool) (int, error) {
			l, err := c.AppsV1().StatefulSets("").List(ctx, all)
			return count(l.Items, wanted, func(i int) string { return l.Items[i].Namespace }), err
		},
		"daemonsets": func(ctx context.Context, wanted func(string) bool) (int, error) {
			l, err := c.AppsV1().DaemonSets("").List(ctx, all)
			return count(l.Items, wanted, func(i int) string { return l.Items[i].Namespace }), err
		},
		"controllerrevisions": func(ctx context.Context, wanted func(string) bool) (int, error) {
			l, err := c.AppsV1().ControllerRevisions("").List(ctx, all)
			return count(l.Items, wanted, func(i int) string { return l.Items[i].Namespace }), err
		},
		"jobs": func(ctx context.Context, wanted func(string) bool) (int, error) {
			l, err := c.BatchV1().Jobs("").List(ctx, all)
			return count(l.Items, wanted, func(i int) string { return l.Items[i].Namespace }), err
		},
		"endpointslices": func(ctx context.Context, wanted func(string) bool) (int, error) {
			l, err := c.DiscoveryV1().EndpointSlices("").List(ctx, all)
			return count(l.Items, wanted, func(i int) string { return l.Items[i].Namespace }), err
		},
	}
}

func count[T any](items []T, wanted func(string) bool, namespace func(int) string) (n int) {
	for i := range items {
		if wanted(namespace(i)) {
			n++
		}
	}
	return n
}

// reportLeftovers prints a line for each manager: nothing should be left.
func reportLeftovers(w io.Writer, all []result) {
	for _, r := range all {
		if r.Left == nil {
			continue
		}
		text := "nothing"
		if len(r.Left) > 0 {
			var parts []string
			for _, kind := range slices.Sorted(maps.Keys(r.Left)) {
				parts = append(parts, fmt.Sprintf("%d %s", r.Left[kind], kind))
			}
			text = strings.Join(parts, ", ")
		}
		fmt.Fprintf(w, "left over after round %d of %s: %s\n", r.Round, r.Manager, text)
	}
}
