package cronjob

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// Anyone who may create Jobs in a namespace can give them any owner. An owner in another namespace must ignore them.
func TestAJobOfAnotherNamespaceIsNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cj := newCronJob("backup", "0 0 1 1 *", history(0, 0))
		cj.UID, cj.CreationTimestamp = "backup", metav1.NewTime(time.Now())
		foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: "other", Name: "foreign",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		}}
		end(foreign, batchv1.JobComplete, time.Now())
		api := kittest.New(t, cj, foreign)
		api.Run(t, Descriptor())
		api.Settle()
		if writes := api.TakeWrites(); len(writes) > 0 {
			t.Errorf("the foreign Job caused %v", writes)
		}
	})
}
