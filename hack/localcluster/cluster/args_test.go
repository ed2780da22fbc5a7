package cluster

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	got, err := freePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range got {
		if seen[port] {
			t.Errorf("port %d was given twice", port)
		}
		seen[port] = true
		listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			t.Errorf("port %d: %v", port, err)
			continue
		}
		_ = listener.Close()
	}
}

// The lists below are the flags of a kubeadm 1.37 static pod: what a controller
// manager must take to be swapped in.
func TestManagersAreStartedAsKubeadmDoes(t *testing.T) {
	want := []string{
		"--authentication-kubeconfig", "--authorization-kubeconfig", "--bind-address", "--client-ca-file",
		"--cluster-signing-cert-file", "--cluster-signing-key-file", "--controllers", "--kubeconfig",
		"--leader-elect", "--requestheader-client-ca-file", "--root-ca-file",
		"--service-account-private-key-file", "--use-service-account-credentials",
	}
	ranges := []string{"--allocate-node-cidrs", "--cluster-cidr", "--service-cluster-ip-range"}
	orrery := flagNames(managerArgs(Orrery, 1, Files{}))
	upstream := flagNames(managerArgs(Upstream, 1, Files{}))
	for _, flag := range want {
		if !slices.Contains(orrery, flag) || !slices.Contains(upstream, flag) {
			t.Errorf("%s is not given to both", flag)
		}
	}
	for _, flag := range ranges {
		if slices.Contains(orrery, flag) || !slices.Contains(upstream, flag) {
			t.Errorf("%s must be given to upstream alone", flag)
		}
	}
}

func TestNoFlagIsGivenTwice(t *testing.T) {
	p := ports{1, 2, 3, 4}
	for name, args := range map[string][]string{
		"etcd": etcdArgs(p, "d"), "kube-apiserver": apiServerArgs(p, Files{}), "kube-scheduler": schedulerArgs(p, Files{}),
		"kwok": kwokArgs(Files{}, "s"), "upstream": managerArgs(Upstream, 5, Files{}),
	} {
		names := flagNames(args)
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%s: %v", name, names)
		}
	}
}

func flagNames(args []string) []string {
	names := make([]string, len(args))
	for i, arg := range args {
		names[i], _, _ = strings.Cut(arg, "=")
	}
	return names
}

func TestEveryNodeHasRangesAndAddressesOfItsOwn(t *testing.T) {
	var clusterRanges []netip.Prefix
	for _, text := range strings.Split(ClusterCIDRs, ",") {
		clusterRanges = append(clusterRanges, netip.MustParsePrefix(text))
	}
	seen := map[string]int{}
	for index := range maxNodes {
		for family, text := range nodeRanges(index) {
			prefix := netip.MustParsePrefix(text)
			if prefix != prefix.Masked() || !clusterRanges[family].Contains(prefix.Addr()) {
				t.Fatalf("node %d: %s is not a range of %s", index, text, clusterRanges[family])
			}
			claim(t, seen, text, index)
		}
		for _, a := range nodeAddresses(index, "n") {
			if a.Type == "InternalIP" {
				claim(t, seen, netip.MustParseAddr(a.Address).String(), index)
			}
		}
	}
}

func claim(t *testing.T, seen map[string]int, what string, index int) {
	t.Helper()
	if other, taken := seen[what]; taken {
		t.Fatalf("nodes %d and %d both have %s", other, index, what)
	}
	seen[what] = index
}

func TestNodesSpreadOverThreeZones(t *testing.T) {
	count := map[string]int{}
	for index := range 9 {
		count[newNode(index, true, true).Labels["topology.kubernetes.io/zone"]]++
	}
	for _, zone := range []string{"zone-a", "zone-b", "zone-c"} {
		if count[zone] != 3 {
			t.Errorf("zones are %v, want three nodes in each", count)
		}
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, options := range map[string]Options{
		"negative nodes":     {Nodes: -1},
		"too many nodes":     {Nodes: maxNodes + 1},
		"unknown kind":       {ControllerManager: "other"},
		"orrery not given":   {ControllerManager: Orrery},
		"orrery not there":   {ControllerManager: Orrery, OrreryBin: "/does/not/exist"},
		"orrery is a folder": {ControllerManager: Orrery, OrreryBin: t.TempDir()},
	} {
		if err := options.complete(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	good := Options{ControllerManager: Orrery, OrreryBin: "/bin/sh"}
	if err := good.complete(); err != nil || good.ReadyTimeout == 0 || good.Log == nil {
		t.Errorf("good options: %+v, %v", good, err)
	}
}

func TestGivenFlagsReplaceTheUsualOnes(t *testing.T) {
	usual := []string{"--a=1", "--controllers=*", "--b"}
	got := override(usual, []string{"--controllers=x", "--c=2", "--b=false"})
	if want := []string{"--a=1", "--controllers=x", "--c=2", "--b=false"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
