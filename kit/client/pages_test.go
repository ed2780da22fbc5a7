package client_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
)

// TestPagesAreReadAndDeletedOneByOne: the last page is deleted first, then the one before it, and a page that is already gone
// once more. The others stay each time.
func TestPagesAreReadAndDeletedOneByOne(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, ns string) {
		const size, n = 10, 25
		mine := []client.Option{client.Kind(configMaps), client.InNamespace(ns), client.Labels("app=kit")}
		list := func() []client.Page[*metav1.PartialObjectMetadata] {
			var all []client.Page[*metav1.PartialObjectMetadata]
			for page, err := range client.Pages[metav1.PartialObjectMetadata](ctx, c, append(mine, client.Limit(size))...) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, page)
			}
			return all
		}
		names := func(pages []client.Page[*metav1.PartialObjectMetadata]) (all []string) {
			for _, p := range pages {
				for _, o := range p.Items {
					all = append(all, o.Name)
				}
			}
			return all
		}
		for i := range n {
			must(client.Create[corev1.ConfigMap](ctx, c, settings(ns, fmt.Sprintf("m%02d", i))))
		}
		pages := list()
		if len(pages) != 3 || len(pages[0].Items) != size || len(pages[2].Items) != 5 || pages[0].Token != "" || pages[1].Token == "" {
			t.Fatalf("%d pages: %v", len(pages), pages)
		}
		all := names(pages)
		for _, step := range []struct{ page, left int }{{2, 2 * size}, {1, size}, {2, size}} {
			err := client.DeleteAll[metav1.PartialObjectMetadata](ctx, c, append(mine, client.Limit(size), client.From(pages[step.page].Token))...)
			if err != nil {
				t.Fatalf("delete page %d: %v", step.page, err)
			}
			if got, want := names(list()), all[:step.left]; !slices.Equal(got, want) {
				t.Errorf("after page %d there are %v, want %v", step.page, got, want)
			}
		}
		rest := client.Pages[corev1.ConfigMap](ctx, c, client.InNamespace(ns), client.Labels("app=kit"), client.Limit(3))
		for page, err := range rest {
			if err != nil || len(page.Items) != 3 || page.Items[0].Data["a"] != "1" {
				t.Errorf("the first page is %v, %v", page, err)
			}
			break
		}
	})
}

// TestPagesOfWhatIsNotThere yield an error and no page.
func TestPagesOfWhatIsNotThere(t *testing.T) {
	eachAPI(t, func(t *testing.T, ctx context.Context, c *client.Client, _ string) {
		n := 0
		for page, err := range client.Pages[metav1.PartialObjectMetadata](ctx, c, client.Kind(corev1.SchemeGroupVersion.WithKind("Nothing"))) {
			if n++; err == nil {
				t.Errorf("a page: %v", page)
			}
		}
		if n != 1 {
			t.Errorf("%d errors", n)
		}
	})
}
