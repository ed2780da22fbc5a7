package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

const (
	pollInterval = 50 * time.Millisecond
	// requestTimeout keeps one request that hangs from using up the whole wait.
	requestTimeout = 5 * time.Second
	failureLines   = 20
)

// poll calls check until it succeeds. It gives up when ctx ends or when the
// process that should make it succeed has ended.
func poll(ctx context.Context, what string, p *Process, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		request, cancel := context.WithTimeout(ctx, requestTimeout)
		err := check(request)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w)\n%s", what, context.Cause(ctx), err, p.tailBlock())
		case <-p.done:
			return fmt.Errorf("wait for %s: %w", what, p.failure())
		case <-ticker.C:
		}
	}
}

// failure describes an end that was not asked for.
func (p *Process) failure() error {
	how := "exit code 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended: %s\n%s", p.name, how, p.tailBlock())
}

// tailBlock is the end of the log under a heading, for people.
func (p *Process) tailBlock() string {
	return fmt.Sprintf("--- end of %s ---\n%s\n---", p.logPath, p.LogTail(failureLines))
}

func (c *Cluster) waitForAPIServer(ctx context.Context) error {
	etcd, server := c.Etcd(), c.APIServer()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-etcd.done:
			cancel(etcd.failure())
		case <-ctx.Done():
		}
	}()
	err := poll(ctx, "kube-apiserver", server, func(ctx context.Context) error {
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	if err != nil && !etcd.Running() {
		return etcd.failure() // the cause, of which the server's words are a consequence
	}
	return err
}

func (c *Cluster) waitForNodes(ctx context.Context, names []string) error {
	return poll(ctx, "nodes", c.Kwok(), func(ctx context.Context) error {
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		ready := map[string]bool{}
		for i := range nodes.Items {
			ready[nodes.Items[i].Name] = nodeReady(&nodes.Items[i])
		}
		for _, name := range names {
			if !ready[name] {
				return fmt.Errorf("node %s is not Ready", name)
			}
		}
		return nil
	})
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// untaint takes the not-ready taint away, which otherwise is the work of a
// controller manager.
func (c *Cluster) untaint(ctx context.Context, names []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWorkers)
	for _, name := range names {
		group.Go(func() error {
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return c.untaintNode(ctx, name) })
			if err != nil {
				return fmt.Errorf("untaint node %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *Cluster) untaintNode(ctx context.Context, name string) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	kept := node.Spec.Taints[:0]
	for _, taint := range node.Spec.Taints {
		if taint.Key != corev1.TaintNodeNotReady {
			kept = append(kept, taint)
		}
	}
	node.Spec.Taints = kept
	_, err = c.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}

// WaitHealthy blocks until the process answers /healthz on its HTTPS endpoint
// with 200. It fails when the process ends before that.
func (p *Process) WaitHealthy(ctx context.Context) error {
	if p.url == "" {
		return fmt.Errorf("wait for %s: it has no HTTPS endpoint", p.name)
	}
	// The certificate is one that the component has just signed itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	return poll(ctx, p.name, p, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
			return errors.New(response.Status + ": " + string(text))
		}
		return nil
	})
}

// WaitUsable waits for what a controller manager does to a new cluster before
// pods can be made and placed: the service account "default" in the namespace
// "default", and no not-ready taint on any node. Start does not wait for it,
// because a controller manager that runs with few controllers never does it.
func (c *Cluster) WaitUsable(ctx context.Context) error {
	return poll(ctx, "first work of the controller manager", c.APIServer(), func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			for _, taint := range nodes.Items[i].Spec.Taints {
				if taint.Key == corev1.TaintNodeNotReady {
					return fmt.Errorf("node %s has the taint %s", nodes.Items[i].Name, taint.Key)
				}
			}
		}
		return nil
	})
}
