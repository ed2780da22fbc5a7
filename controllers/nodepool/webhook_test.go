package nodepool

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/api/nodes/v1alpha1"
	"orrery/kit/kittest"
	"orrery/kit/webhook"
)

func TestTheWebhookLooksAtWhatElseThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, newNode("a", "pool-one", "pool-two"), newPool("one", label("team", "one")), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Handler: "x"})
		lists := 0
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == "webhook" {
				lists++
			}
			return nil
		})
		h := Webhook(l.Client("webhook", rules()...).Live())
		ask := func(old, p *v1alpha1.NodePool) ([]string, error) {
			return h.Validate(context.Background(), &webhook.Request{Name: "two"}, old, p)
		}
		clash := newPool("two", label("team", "two"), func(s *v1alpha1.NodePoolSpec) { s.RuntimeClass = &v1alpha1.RuntimeClass{Handler: "x", Name: "foreign"} })
		if _, err := ask(nil, clash); err == nil || !strings.Contains(err.Error(), "is in use by a RuntimeClass") {
			t.Errorf("a name in use: %v", err)
		}
		clash.Spec.RuntimeClass = nil
		if _, err := ask(nil, clash); err == nil || !strings.Contains(err.Error(), "NodePool one sets it") {
			t.Errorf("a clash: %v", err)
		}
		alone := newPool("two", label("other", "two"))
		if warnings, err := ask(nil, alone); err != nil || len(warnings) != 0 {
			t.Errorf("nothing wrong: %v, %v", warnings, err)
		}
		nowhere := newPool("two")
		nowhere.Spec.NodeSelector.MatchLabels = map[string]string{"nobody": ""}
		if warnings, err := ask(alone, nowhere); err != nil || !slices.Equal(warnings, []string{"spec.nodeSelector: matches no node now"}) {
			t.Errorf("a selector of nobody: %v, %v", warnings, err)
		}

		// What does not concern the spec is not held up, not even by an API that does not answer.
		l.React(func(r *kittest.Request) *kittest.Reaction {
			if r.User == "webhook" {
				return kittest.Refuse(http.StatusInternalServerError, "away")
			}
			return nil
		})
		before := lists
		finalized := clash.DeepCopy()
		finalized.Finalizers = nil
		now := metav1.Now()
		going := newPool("two", label("team", "again"))
		going.DeletionTimestamp = &now
		for name, c := range map[string][2]*v1alpha1.NodePool{"the same spec": {clash, finalized}, "a pool that goes": {clash, going}, "a deletion": {clash, nil}} {
			if _, err := ask(c[0], c[1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if lists != before {
			t.Errorf("%d lists for nothing", lists-before)
		}
		if _, err := ask(nil, alone); err == nil || !strings.Contains(err.Error(), "away") {
			t.Errorf("an API that does not answer: %v", err)
		}

		given := newPool("two")
		if err := h.Default(context.Background(), nil, given); err != nil || given.Spec.Mode != v1alpha1.Enforce {
			t.Errorf("defaults: %+v, %v", given.Spec, err)
		}
		if err := h.Default(context.Background(), nil, going); err != nil || going.Spec.Mode != "" {
			t.Errorf("a pool that goes is given %+v, %v", going.Spec, err)
		}
	})
}
