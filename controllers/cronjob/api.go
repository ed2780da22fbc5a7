package cronjob

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/internal/index"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// api is everything that the reconciler needs from the cluster.
type api struct {
	// jobsOf returns the Jobs that a CronJob controls, as the cache shows them.
	jobsOf func(*batchv1.CronJob) []*batchv1.Job
	// liveCronJob and liveJob read from the server.
	liveCronJob func(context.Context, kit.Key) (*batchv1.CronJob, error)
	liveJob     func(context.Context, kit.Key) (*batchv1.Job, error)

	createJob func(context.Context, *batchv1.Job) (*batchv1.Job, error)
	// deleteJob deletes the Job if it has that UID; its pods are deleted in the background.
	deleteJob    func(context.Context, kit.Key, types.UID) error
	updateStatus func(context.Context, *batchv1.CronJob) error
}

func newAPI(cc kit.ControllerContext, jobs cache.Store[*batchv1.Job]) api {
	return api{
		jobsOf: func(cj *batchv1.CronJob) []*batchv1.Job {
			return index.Owned(jobs, index.ByController[*batchv1.Job](), cj)
		},
		liveCronJob: func(ctx context.Context, key kit.Key) (*batchv1.CronJob, error) {
			return client.Get[batchv1.CronJob](ctx, cc.Live, key)
		},
		liveJob: func(ctx context.Context, key kit.Key) (*batchv1.Job, error) {
			return client.Get[batchv1.Job](ctx, cc.Live, key)
		},
		createJob: func(ctx context.Context, j *batchv1.Job) (*batchv1.Job, error) {
			return client.Create(ctx, cc.Client, j)
		},
		deleteJob: func(ctx context.Context, key kit.Key, uid types.UID) error {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}}
			return client.Delete(ctx, cc.Client, j, client.IfUID(uid), client.Background)
		},
		updateStatus: func(ctx context.Context, cj *batchv1.CronJob) error {
			_, err := client.UpdateStatus(ctx, cc.Client, cj)
			return err
		},
	}
}
