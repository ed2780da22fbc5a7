package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"orrery/hack/localcluster/cluster"
)

// manager is a running controller manager under measurement.
type manager struct {
	process *cluster.Process
	http    *http.Client
}

// start runs a manager until it works. The lease of the one before is removed: upstream does not give its lease back,
// and waiting for it is not what is measured here.
func start(ctx context.Context, c *cluster.Cluster, s settings, kind cluster.ManagerKind) (*manager, error) {
	leases := c.Client().CoordinationV1().Leases("kube-system")
	if err := leases.Delete(ctx, "kube-controller-manager", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	var args []string
	if kind == cluster.Upstream && s.throttle == "raised" {
		args = append(args, raised...)
	}
	if kind == cluster.Upstream && s.same {
		names, err := orreryControllers(ctx, s.orrery)
		if err != nil {
			return nil, err
		}
		args = append(args, "--controllers="+names)
	}
	p, err := c.StartControllerManager(ctx, kind, args...)
	if err != nil {
		return nil, err
	}
	if err := p.WaitHealthy(ctx); err != nil {
		return nil, err
	}
	config := c.RESTConfig()
	t, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	t.InsecureSkipVerify = true // the manager's own certificate is self-signed
	t.RootCAs = nil
	return &manager{process: p, http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: t.Certificates, GetClientCertificate: t.GetClientCertificate, InsecureSkipVerify: true}}}}, c.WaitUsable(ctx)
}

// orreryControllers asks the binary for the controllers that it runs by default, for --controllers.
func orreryControllers(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, "controllers", "-o", "json").Output()
	if err != nil {
		return "", fmt.Errorf("list controllers: %w", err)
	}
	var all []struct {
		Name    string `json:"name"`
		Default string `json:"default"`
		Built   bool   `json:"built"`
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return "", fmt.Errorf("read the list of controllers: %w", err)
	}
	var names []string
	for _, c := range all {
		if c.Built && c.Default == "on" {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ","), nil
}

// sample is what a manager has consumed since its start.
type sample struct {
	cpu      time.Duration
	rss      int64
	peak     int64
	requests float64
}

func (m *manager) sample(ctx context.Context) (sample, error) {
	u, err := m.process.Usage()
	if err != nil {
		return sample{}, err
	}
	n, err := m.requests(ctx)
	return sample{cpu: u.CPU, rss: u.RSS, peak: u.PeakRSS, requests: n}, err
}

// requests sums the manager's own count of its requests to the API server.
func (m *manager) requests(ctx context.Context) (total float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.process.URL()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read the manager's metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("read the manager's metrics: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		if !strings.HasPrefix(text, "rest_client_requests_total{") {
			continue
		}
		v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		total += v
	}
	return total, lines.Err()
}

func (m *manager) stop(ctx context.Context) error { return m.process.Stop(ctx) }
