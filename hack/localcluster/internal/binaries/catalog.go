package binaries

import (
	"slices"
	"strings"
)

// Version is the Kubernetes release of every program in the catalog. It names
// the cache folder too, so that releases live beside each other.
const Version = "v1.37.2"

// The programs a local cluster can run.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
	Kubectl           = "kubectl"
	Kwok              = "kwok"
)

// The programs of the Kubernetes project's end-to-end tests. They take longer to
// build than all others together.
const (
	E2E    = "e2e.test"
	Ginkgo = "ginkgo"
)

// All lists every program of a cluster in the order in which they are built:
// first what a cluster cannot start without.
func All() []string {
	return []string{Etcd, APIServer, Scheduler, Kubectl, Kwok, ControllerManager}
}

// The programs that a node with real containers needs beside those of a cluster.
const (
	Kubelet = "kubelet"
	Kubeadm = "kubeadm"
	// Agnhost serves, fails, waits and probes inside the containers of the end-to-end tests.
	Agnhost = "agnhost"
	Proxy   = "kube-proxy"
	// CoreDNS is what kubeadm makes a cluster's name server of.
	CoreDNS = "coredns"
)

// OlderAPIServer is the name of kube-apiserver of another release, which a cluster can have in place of its own. It is
// built only by name.
func OlderAPIServer(version string) string { return APIServer + "@" + version }

// Older lists the releases that OlderAPIServer takes: the last of each minor version that Orrery works with.
func Older() []string { return []string{"v1.34.4", "v1.35.4", "v1.36.3"} }

// Suite lists the programs that test a cluster; they are built only by name.
func Suite() []string { return []string{Ginkgo, E2E} }

// Node lists the programs that make a real node; they are built only by name.
func Node() []string { return []string{Kubelet, Kubeadm, Agnhost, Proxy, CoreDNS} }

// Known lists every program there is a recipe for.
func Known() []string { return slices.Concat(All(), Suite(), Node()) }

// recipe says how one program is compiled.
type recipe struct {
	module  string // name of the embedded build module
	version string // release of Kubernetes, where it is another than Version
	pkg     string // import path of the main package
	ldflags string
	test    bool // the program is the package's compiled tests
}

func recipeFor(name string) (recipe, bool) {
	if base, version, older := strings.Cut(name, "@"); older {
		return recipe{
			module: "kubernetes", version: version, pkg: "k8s.io/kubernetes/cmd/" + base, ldflags: "-s -w " + versionFlags(version),
		}, base == APIServer && slices.Contains(Older(), version)
	}
	switch name {
	case Etcd:
		return recipe{module: "etcd", pkg: "go.etcd.io/etcd/server/v3", ldflags: "-s -w"}, true
	case Kwok:
		return recipe{
			module:  "kwok",
			pkg:     "sigs.k8s.io/kwok/cmd/kwok",
			ldflags: "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0",
		}, true
	case Ginkgo:
		return recipe{module: "e2e", pkg: "github.com/onsi/ginkgo/v2/ginkgo", ldflags: "-s -w"}, true
	case E2E:
		return recipe{
			module:  "e2e",
			pkg:     "k8s.io/kubernetes/test/e2e",
			ldflags: "-s -w " + versionFlags(Version),
			test:    true,
		}, true
	case CoreDNS:
		return recipe{module: "coredns", pkg: "github.com/coredns/coredns", ldflags: "-s -w"}, true
	case Agnhost:
		return recipe{module: "kubernetes", pkg: "k8s.io/kubernetes/test/images/agnhost", ldflags: "-s -w"}, true
	case APIServer, Scheduler, ControllerManager, Kubectl, Kubelet, Kubeadm, Proxy:
		return recipe{
			module:  "kubernetes",
			pkg:     "k8s.io/kubernetes/cmd/" + name,
			ldflags: "-s -w " + versionFlags(Version),
		}, true
	}
	return recipe{}, false
}

// versionFlags stamps the release into both version packages, as the release
// build does; without it the server reports v0.0.0-master and clients that
// compare versions misbehave.
func versionFlags(version string) string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+version,
			"-X "+pkg+".gitMajor="+major,
			"-X "+pkg+".gitMinor="+minor,
			"-X "+pkg+".gitTreeState=clean",
		)
	}
	return strings.Join(flags, " ")
}
