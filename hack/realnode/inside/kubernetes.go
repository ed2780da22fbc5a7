package inside

import (
	"context"
	"fmt"
	"os"
	"strings"
)

const (
	kubeadmConfig = "/etc/kubernetes/kubeadm.yaml"
	adminConf     = "/etc/kubernetes/admin.conf"
	proxyConf     = "/etc/kubernetes/proxy.conf"
)

// phase runs one phase of "kubeadm init".
func (m *machine) phase(ctx context.Context, phases ...string) error {
	for _, phase := range phases {
		args := append([]string{"init", "phase"}, strings.Fields(phase)...)
		if err := m.run(ctx, "kubeadm", append(args, "--config="+kubeadmConfig)...); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) kubeadmBefore(ctx context.Context) error {
	if err := m.phase(ctx, "certs all", "kubeconfig all", "etcd local", "control-plane all", "kubelet-start"); err != nil {
		return err
	}
	// What kubeadm would do in a phase that makes a DaemonSet, whose image would have to hold a whole system.
	user, err := m.output(ctx, "kubeadm", "kubeconfig", "user", "--config="+kubeadmConfig, "--client-name=system:kube-proxy")
	if err != nil {
		return err
	}
	return os.WriteFile(proxyConf, user, 0o600)
}

// startKubelet starts it as kubeadm's unit does.
func (m *machine) startKubelet(context.Context) error {
	text, err := os.ReadFile("/var/lib/kubelet/kubeadm-flags.env")
	if err != nil {
		return fmt.Errorf("read the kubelet's flags: %w", err)
	}
	_, flags, _ := strings.Cut(strings.TrimSpace(string(text)), "=")
	args := append([]string{
		"--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/var/lib/kubelet/config.yaml",
	}, strings.Fields(strings.Trim(flags, `"`))...)
	return m.keep("kubelet", args...)
}

func (m *machine) kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return m.output(ctx, "kubectl", append([]string{"--kubeconfig=" + adminConf}, args...)...)
}

func (m *machine) waitServer(ctx context.Context) error {
	return await(ctx, func() error {
		_, err := m.kubectl(ctx, "get", "--raw=/readyz")
		return err
	})
}

func (m *machine) kubeadmAfter(ctx context.Context) error {
	return m.phase(ctx, "upload-config all", "mark-control-plane", "bootstrap-token", "kubelet-finalize all")
}

func (m *machine) startProxy(context.Context) error {
	return m.keep("kube-proxy", "--kubeconfig="+proxyConf, "--hostname-override="+m.Name, "--cluster-cidr=10.244.0.0/16",
		"--conntrack-max-per-core=0", "--v=1")
}

// names makes the cluster's name server.
func (m *machine) names(ctx context.Context) error {
	if !m.Full {
		return nil
	}
	if err := m.phase(ctx, "addon coredns"); err != nil {
		return err
	}
	_, err := m.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
	return err
}

// waitNode waits until pods can run: the node is ready, nothing keeps pods off it, and there are service accounts.
func (m *machine) waitNode(ctx context.Context) error {
	return await(ctx, func() error {
		out, err := m.kubectl(ctx, "get", "node", m.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status} {.spec.taints}`)
		if err == nil && strings.TrimSpace(string(out)) != "True" {
			err = fmt.Errorf("the node is not ready: %s", out)
		}
		if err == nil {
			_, err = m.kubectl(ctx, "get", "serviceaccount", "default")
		}
		return err
	})
}
