package kit_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/kittest"
)

func TestAControllerThatCannotBeBuiltSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t)
		nothing := kit.Func[kit.Key](func(context.Context, kit.Key) (kit.Result, error) { return kit.Done, nil })
		cc := api.Context("x")
		if kit.NewController(cc, nothing).Complete() == nil {
			t.Error("a context of no process was accepted")
		}
		cc = cc.In(kit.NewScope())
		if kit.NewController(cc, nothing).Workers(0).Complete() == nil {
			t.Error("no workers were accepted")
		}
		kit.Store[metav1.PartialObjectMetadata](cc)
		if kit.NewController(cc, nothing).Complete() == nil {
			t.Error("a kind that cannot be cached was accepted")
		}
	})
}
