package command

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"orrery/hack/localcluster/cluster"
)

//go:embed example.yaml
var example []byte

const (
	exampleNamespace = "demo"
	exampleName      = "web" // of the Deployment and of the Service
	exampleJob       = "report"
	// rolloutTimeout is generous: with a healthy controller manager it takes a second.
	rolloutTimeout = 2 * time.Minute
	failureLines   = 20
	// kindTimeout is how long a kind may take to be served once its definition is stored.
	kindTimeout = 20 * time.Second
)

func newDemo(a *app) *cobra.Command {
	var f upFlags
	var once bool
	var manifests []string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a cluster with a controller manager, roll out an example, and stay until Ctrl-C",
		Long: `Start a cluster with a controller manager (Orrery by default), apply an example of a
Deployment with a Service, a Job and a CronJob, show the rollout, suggest kubectl
commands to try next, and stay until Ctrl-C.`,
		Example: "  localcluster demo --orrery-bin=bin/orrery\n  localcluster demo --controller-manager=upstream",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.manager == string(cluster.None) {
				return errors.New("nothing rolls out without a controller manager: --controller-manager must be orrery or upstream")
			}
			f.options.Name = a.name
			f.options.ControllerManager = cluster.ManagerKind(f.manager)
			f.options.Log = a.log
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			return a.hold(ctx, f.options, func(ctx context.Context, c *cluster.Cluster) error {
				if once {
					defer stop()
				}
				if err := a.applyManifests(ctx, c, manifests); err != nil {
					return err
				}
				kubectl, err := a.rollOutExample(ctx, c)
				if err == nil && ctx.Err() == nil && !once {
					a.explain(c, kubectl)
				}
				return err
			})
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&f.manager, "controller-manager", string(cluster.Orrery), "orrery or upstream")
	cmd.Flags().StringArrayVar(&manifests, "manifest", nil, "file or folder to apply before the example; may be repeated")
	cmd.Flags().BoolVar(&once, "once", false, "stop the cluster once the example is rolled out")
	return cmd
}

// applyManifests applies the additional manifests. Kinds that are still being
// installed are waited for.
func (a *app) applyManifests(ctx context.Context, c *cluster.Cluster, paths []string) error {
	for _, path := range paths {
		kubectl, err := c.Kubectl(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "\n$ kubectl apply --server-side -f %s\n", path)
		deadline := time.Now().Add(kindTimeout)
		for {
			out, err := exec.CommandContext(ctx, kubectl, "--kubeconfig", c.Kubeconfig(), "apply", "--server-side", "-f", path).CombinedOutput()
			if err == nil || ctx.Err() != nil {
				fmt.Fprint(a.out, string(out))
				break
			}
			if !bytes.Contains(out, []byte("no matches for kind")) || time.Now().After(deadline) {
				return fmt.Errorf("apply %s: %w\n%s", path, err, out)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return nil
}

// rollOutExample applies the example as a user would, and watches its rollout. It
// returns the path of kubectl. Ctrl-C is not an error.
func (a *app) rollOutExample(ctx context.Context, c *cluster.Cluster) (kubectl string, err error) {
	kubectl, err = c.Kubectl(ctx)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(a.out, "\n$ kubectl apply -f example.yaml\n")
	apply := exec.CommandContext(ctx, kubectl, "--kubeconfig", c.Kubeconfig(), "apply", "-f", "-")
	apply.Stdin = bytes.NewReader(example)
	apply.Stdout, apply.Stderr = a.out, a.log
	begin := time.Now()
	if err := apply.Run(); err != nil {
		if ctx.Err() != nil {
			return kubectl, nil
		}
		return "", fmt.Errorf("apply the example: %w", err)
	}
	return kubectl, a.watchRollout(ctx, c, begin)
}

// watchRollout prints a line whenever the rollout has progressed, until all
// replicas are available and are endpoints of the Service.
func (a *app) watchRollout(ctx context.Context, c *cluster.Cluster, begin time.Time) error {
	limit := time.NewTimer(rolloutTimeout)
	defer limit.Stop()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for last := ""; ; {
		now, err := observeRollout(ctx, c.Client())
		if err == nil && now.String() != last {
			last = now.String()
			fmt.Fprintf(a.out, "%6.1f s  %s\n", time.Since(begin).Seconds(), last)
		}
		if err == nil && now.complete() {
			fmt.Fprintf(a.out, "rolled out in %.1f s\n", time.Since(begin).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case failure := <-c.Failures():
			return failure
		case <-limit.C:
			return fmt.Errorf("the example has not rolled out after %v: %s (last error: %v)\n%s",
				rolloutTimeout, last, err, managerTail(c))
		case <-ticker.C:
		}
	}
}

func managerTail(c *cluster.Cluster) string {
	managers := c.ControllerManagers()
	if len(managers) == 0 {
		return "there is no controller manager"
	}
	manager := managers[len(managers)-1]
	return fmt.Sprintf("--- end of %s ---\n%s", manager.LogPath(), manager.LogTail(failureLines))
}

// rollout is the progress of the example.
type rollout struct {
	wanted, created, updated, available int32
	endpoints                           int
	jobWanted, jobDone                  int32
}

func (r rollout) String() string {
	return fmt.Sprintf("deployment: %d of %d pods created, %d up to date, %d available; service: %d endpoints; job: %d of %d done",
		r.created, r.wanted, r.updated, r.available, r.endpoints, r.jobDone, r.jobWanted)
}

func (r rollout) complete() bool {
	return r.wanted > 0 && r.updated == r.wanted && r.available == r.wanted && r.endpoints == int(r.wanted) && r.jobDone == r.jobWanted
}

func observeRollout(ctx context.Context, client kubernetes.Interface) (rollout, error) {
	deployment, err := client.AppsV1().Deployments(exampleNamespace).Get(ctx, exampleName, metav1.GetOptions{})
	if err != nil {
		return rollout{}, err
	}
	slices, err := client.DiscoveryV1().EndpointSlices(exampleNamespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + exampleName})
	if err != nil {
		return rollout{}, err
	}
	job, err := client.BatchV1().Jobs(exampleNamespace).Get(ctx, exampleJob, metav1.GetOptions{})
	if err != nil {
		return rollout{}, err
	}
	r := rolloutOf(deployment, slices.Items)
	r.jobWanted, r.jobDone = *job.Spec.Completions, job.Status.Succeeded
	return r, nil
}

// rolloutOf counts the progress. It ignores status that is older than the spec, and
// endpoints that are not ready.
func rolloutOf(deployment *appsv1.Deployment, slices []discoveryv1.EndpointSlice) rollout {
	var r rollout
	if deployment.Spec.Replicas != nil {
		r.wanted = *deployment.Spec.Replicas
	}
	if deployment.Status.ObservedGeneration >= deployment.Generation {
		status := deployment.Status
		r.created, r.updated, r.available = status.Replicas, status.UpdatedReplicas, status.AvailableReplicas
	}
	for i := range slices {
		for _, endpoint := range slices[i].Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				r.endpoints++
			}
		}
	}
	return r
}

const nextSteps = `
The cluster stays until Ctrl-C. In another terminal:
  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl -n demo get deployments,replicasets,cronjobs,jobs,pods,endpointslices
  kubectl -n demo set image deployment/web web=registry.example/web:2.0
  kubectl -n demo rollout status deployment/web
  kubectl -n demo rollout undo deployment/web
  kubectl -n demo scale deployment/web --replicas=100
  kubectl delete namespace demo
The controller manager serves %s (healthz, readyz, metrics; client certificates
in %s); its log is
  %s
`

func (a *app) explain(c *cluster.Cluster, kubectl string) {
	manager := c.ControllerManagers()[0]
	fmt.Fprintf(a.out, nextSteps, c.Kubeconfig(), kubectl, manager.URL(), c.Kubeconfig(), manager.LogPath())
}
