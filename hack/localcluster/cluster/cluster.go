package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery/hack/localcluster/internal/binaries"
	"orrery/hack/localcluster/internal/pki"
)

const kubernetesVersion = binaries.Version

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	options   Options
	dir       string
	temporary bool
	programs  binaries.Set
	ports     ports
	files     pki.Files
	launcher  *launcher
	config    *rest.Config
	client    kubernetes.Interface
	failures  chan error
	started   time.Time // when Start was called
	startTime time.Duration

	mu        sync.Mutex
	etcd      *Process
	apiServer *Process
	scheduler *Process
	kwok      *Process
	managers  []*Process
	nodes     int // nodes ever made
	stopped   bool
}

// Start brings a cluster up and returns when kube-apiserver is ready, every
// node is Ready and the controller manager, if one is wanted, is healthy. When
// anything fails it stops what runs, removes what it made, and returns an error
// that holds the end of the failed component's log.
//
// The first start on a machine builds the programs, which takes minutes; that
// time does not count towards Options.ReadyTimeout.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	programs, err := binaries.Ensure(ctx, binaries.Request{
		Names: options.programs(), BinDir: options.BinDir, Log: options.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	dir, temporary, err := options.makeDir()
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{
		options: options, dir: dir, temporary: temporary, programs: programs,
		launcher: newLauncher(), failures: make(chan error, 16),
		started: time.Now().UTC(),
	}
	ctx, cancel := context.WithTimeoutCause(ctx, options.ReadyTimeout,
		fmt.Errorf("not ready after %v", options.ReadyTimeout))
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	c.startTime = time.Since(c.started)
	return c, nil
}

// start walks through the components in the order in which they need each other.
func (c *Cluster) start(ctx context.Context) error {
	if err := os.MkdirAll(c.logDir(), 0o755); err != nil {
		return fmt.Errorf("make log folder: %w", err)
	}
	var err error
	if c.ports, err = pickPorts(); err != nil {
		return err
	}
	if err := c.startEtcd(); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := c.startScheduler(); err != nil {
		return err
	}
	if err := c.startKwok(ctx); err != nil {
		return err
	}
	if err := c.startFirstManager(ctx); err != nil {
		return err
	}
	if err := c.populate(ctx); err != nil {
		return err
	}
	return c.writeState()
}

// writeFiles makes the certificates, the kubeconfig files and the client made
// of them.
func (c *Cluster) writeFiles() error {
	files, err := pki.Write(pki.Request{
		Dir: filepath.Join(c.dir, "pki"), Server: c.Server(), ServerHosts: serverHosts(),
	})
	if err != nil {
		return err
	}
	c.files = files
	config, err := clientcmd.BuildConfigFromFlags("", files.AdminKubeconfig)
	if err != nil {
		return fmt.Errorf("read admin kubeconfig: %w", err)
	}
	// Tests measure controllers: the tool itself must not be the slow part.
	config.QPS, config.Burst = -1, 0
	c.config = config
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make admin client: %w", err)
	}
	return nil
}

func (c *Cluster) populate(ctx context.Context) error {
	if c.options.Nodes == 0 {
		return nil
	}
	begin := time.Now()
	names, err := c.createNodes(ctx, c.options.Nodes, true)
	if err != nil {
		return err
	}
	if c.options.NoKwok {
		return nil
	}
	if err := c.waitForNodes(ctx, names); err != nil {
		return err
	}
	if c.options.Untaint {
		if err := c.untaint(ctx, names); err != nil {
			return err
		}
	}
	c.logStep(fmt.Sprintf("%d nodes Ready", len(names)), begin)
	return nil
}

func (c *Cluster) logStep(what string, begin time.Time) {
	fmt.Fprintf(c.options.Log, "%-32s %5.1f s\n", what, time.Since(begin).Seconds())
}

func (c *Cluster) logDir() string { return filepath.Join(c.dir, "logs") }

// Name returns Options.Name.
func (c *Cluster) Name() string { return c.options.Name }

// Dir returns the folder of the cluster: pki, logs, etcd data and state file.
func (c *Cluster) Dir() string { return c.dir }

// Server returns the URL of kube-apiserver.
func (c *Cluster) Server() string { return address("https", c.ports.apiServer) }

// StartTime returns how long Start took, without building.
func (c *Cluster) StartTime() time.Duration { return c.startTime }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.files.AdminKubeconfig }

// ControllerManagerKubeconfig returns the path of the kubeconfig of
// system:kube-controller-manager.
func (c *Cluster) ControllerManagerKubeconfig() string { return c.files.ControllerManagerKubeconfig }

// Files are the paths of a cluster's certificates, keys and kubeconfig files.
type Files = pki.Files

// PKI returns the paths of all certificates, keys and kubeconfig files.
func (c *Cluster) PKI() Files { return c.files }

// RESTConfig returns a copy of the administrator's client configuration,
// without a request limit.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns the administrator's client, which has no request limit.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Kubectl returns the path of kubectl, which is built when it is missing.
func (c *Cluster) Kubectl(ctx context.Context) (string, error) {
	programs, err := binaries.Ensure(ctx, binaries.Request{
		Names: []string{binaries.Kubectl}, BinDir: c.options.BinDir, Log: c.options.Log,
	})
	return programs[binaries.Kubectl], err
}

// Failures delivers an error for every process that ended without having been
// stopped or killed through this package.
func (c *Cluster) Failures() <-chan error { return c.failures }
