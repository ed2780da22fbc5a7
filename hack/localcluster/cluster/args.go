package cluster

import (
	"fmt"
	"strconv"
	"time"

	"orrery/hack/localcluster/internal/pki"
)

// Networks of a cluster. Nothing routes them; they only have to be consistent.
const (
	// ServiceCIDRs are the ranges of cluster IPs, IPv4 first.
	ServiceCIDRs = "10.96.0.0/16,fd00:10:96::/112"
	// ClusterCIDRs are the ranges of pods, cut into a /22 and a /64 per node.
	ClusterCIDRs = "10.128.0.0/9,fd00:10:128::/48"
	// nodelessPodCIDR serves pods on nodes that have no range of their own.
	nodelessPodCIDR = "10.64.0.0/10"
	// advertised is the address in the endpoints of Service "kubernetes". The
	// API forbids a loopback address there, and nothing connects to it.
	advertised = "192.0.2.1"

	tokenIssuer = "https://kubernetes.default.svc.cluster.local"
	loopback    = "127.0.0.1"
)

// ports are the listening ports of one cluster.
type ports struct {
	etcdClient, etcdPeer, apiServer, scheduler int
}

func pickPorts() (ports, error) {
	free, err := freePorts(4)
	if err != nil {
		return ports{}, err
	}
	return ports{free[0], free[1], free[2], free[3]}, nil
}

func address(scheme string, port int) string {
	return scheme + "://" + loopback + ":" + strconv.Itoa(port)
}

// serverHosts are the names in kube-apiserver's certificate.
func serverHosts() []string {
	return []string{
		"localhost", loopback, "::1", advertised, "10.96.0.1", "fd00:10:96::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
}

// etcdArgs trade durability for speed: nothing here has to survive a power cut.
func etcdArgs(p ports, dataDir string) []string {
	peer := address("http", p.etcdPeer)
	return []string{
		"--name=local",
		"--data-dir=" + dataDir,
		"--listen-client-urls=" + address("http", p.etcdClient),
		"--advertise-client-urls=" + address("http", p.etcdClient),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=local=" + peer,
		"--unsafe-no-fsync",
		"--quota-backend-bytes=" + strconv.Itoa(8<<30),
		"--log-level=warn",
	}
}

// apiServerArgs are kubeadm's, without what needs a kubelet.
func apiServerArgs(p ports, f pki.Files) []string {
	return []string{
		"--advertise-address=" + advertised,
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--bind-address=" + loopback,
		"--client-ca-file=" + f.CACert,
		"--enable-admission-plugins=NodeRestriction",
		"--enable-aggregator-routing=true",
		"--enable-bootstrap-token-auth=true",
		"--etcd-servers=" + address("http", p.etcdClient),
		"--max-mutating-requests-inflight=600",
		"--max-requests-inflight=1200",
		"--proxy-client-cert-file=" + f.FrontProxyCert,
		"--proxy-client-key-file=" + f.FrontProxyKey,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-client-ca-file=" + f.FrontProxyCACert,
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--secure-port=" + strconv.Itoa(p.apiServer),
		"--service-account-issuer=" + tokenIssuer,
		"--service-account-key-file=" + f.ServiceAccountPub,
		"--service-account-signing-key-file=" + f.ServiceAccountKey,
		"--service-cluster-ip-range=" + ServiceCIDRs,
		"--tls-cert-file=" + f.APIServerCert,
		"--tls-private-key-file=" + f.APIServerKey,
	}
}

// schedulerArgs lift the scheduler's own request limit, which would otherwise
// hide what a controller manager can do.
func schedulerArgs(p ports, f pki.Files) []string {
	return []string{
		"--kubeconfig=" + f.SchedulerKubeconfig,
		"--authentication-kubeconfig=" + f.SchedulerKubeconfig,
		"--authorization-kubeconfig=" + f.SchedulerKubeconfig,
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(p.scheduler),
		"--kube-api-qps=5000",
		"--kube-api-burst=10000",
		"--leader-elect=false",
	}
}

// leaseDuration is a kubelet's; it renews after a quarter of it.
const leaseDuration = 40 * time.Second

func kwokArgs(f pki.Files, stages string) []string {
	return []string{
		"--kubeconfig=" + f.AdminKubeconfig,
		"--config=" + stages,
		"--manage-nodes-with-label-selector=" + managedLabel + "=" + managedValue,
		"--cidr=" + nodelessPodCIDR,
		fmt.Sprintf("--node-lease-duration-seconds=%d", int(leaseDuration.Seconds())),
	}
}

// managerArgs are the flags of kubeadm's static pod. Both controller managers
// take them; ranges for nodes are asked of upstream only.
func managerArgs(kind ManagerKind, port int, f pki.Files) []string {
	args := []string{
		"--authentication-kubeconfig=" + f.ControllerManagerKubeconfig,
		"--authorization-kubeconfig=" + f.ControllerManagerKubeconfig,
		"--bind-address=" + loopback,
		"--client-ca-file=" + f.CACert,
		"--cluster-signing-cert-file=" + f.CACert,
		"--cluster-signing-key-file=" + f.CAKey,
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--kubeconfig=" + f.ControllerManagerKubeconfig,
		"--leader-elect=true",
		"--requestheader-client-ca-file=" + f.FrontProxyCACert,
		"--root-ca-file=" + f.CACert,
		"--secure-port=" + strconv.Itoa(port),
		"--service-account-private-key-file=" + f.ServiceAccountKey,
		"--use-service-account-credentials=true",
	}
	if kind == Upstream {
		args = append(args,
			"--allocate-node-cidrs=true",
			"--cluster-cidr="+ClusterCIDRs,
			"--node-cidr-mask-size-ipv4="+strconv.Itoa(nodeMaskIPv4),
			"--node-cidr-mask-size-ipv6="+strconv.Itoa(nodeMaskIPv6),
			"--service-cluster-ip-range="+ServiceCIDRs,
		)
	}
	return args
}
