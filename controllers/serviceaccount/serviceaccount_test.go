package serviceaccount

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestEveryActiveNamespaceHasADefaultAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		going := namespace("going")
		own := account("own", "default")
		own.Annotations = map[string]string{"mine": "yes"}
		api := kittest.New(t, namespace("shop"), going, namespace("own"), own)
		api.Delete(t, going)
		api.Run(t, Descriptor())
		api.Settle()
		api.Expect(t, "create v1/serviceaccounts shop/default")
		api.Create(t, namespace("later"))
		api.Settle()
		api.Expect(t, "create v1/serviceaccounts later/default")

		api.Remove(t, account("shop", "default"))
		api.Settle()
		api.Expect(t, "create v1/serviceaccounts shop/default")
		other := account("shop", "till")
		api.Create(t, other)
		api.Remove(t, other)
		api.Settle()
		api.Expect(t)

		// The account must not be created again in a terminating namespace.
		api.Delete(t, namespace("shop"))
		api.Settle()
		api.Remove(t, account("shop", "default"))
		api.Pass(time.Minute)
		api.Expect(t)
	})
}

func TestACreateThatMeetsADeletionIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.Run(t, Descriptor())
		api.Settle()
		creates := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" {
				if creates++; creates == 1 {
					api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("Namespace"), true)
					api.Delete(t, namespace("brief"))
				}
			}
			return nil
		})
		api.Create(t, namespace("brief"))
		api.Pass(10 * time.Minute)
		if creates != 1 {
			t.Errorf("%d creates in a namespace that is going, want 1", creates)
		}
		api.Expect(t)
	})
}

func TestAnAccountThatTheCacheDoesNotShowYetIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		api.Run(t, Descriptor())
		api.Settle()
		api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), true)
		api.Create(t, account("shop", "default"))
		creates := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" {
				creates++
			}
			return nil
		})
		api.Create(t, namespace("shop"))
		api.Pass(10 * time.Minute)
		if creates != 1 {
			t.Errorf("%d creates, want 1 that finds the account there", creates)
		}
	})
}
