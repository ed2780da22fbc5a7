package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// managedLabel marks the nodes that kwok plays. It is a label and not an
	// annotation because only a label selector makes kwok let go of a node when
	// the mark is taken away.
	managedLabel = "kwok.x-k8s.io/node"
	managedValue = "fake"

	zones        = 3
	nodeMaskIPv4 = 22
	nodeMaskIPv6 = 64
	// maxNodes is how many /22 ranges there are in ClusterCIDRs.
	maxNodes = 8000
	// nodeWorkers is how many nodes are written at the same time.
	nodeWorkers = 16
)

// AddNodes makes n more nodes that kwok plays, waits until they are Ready and
// returns their names.
func (c *Cluster) AddNodes(ctx context.Context, n int) ([]string, error) {
	names, err := c.createNodes(ctx, n, true)
	if err != nil {
		return nil, err
	}
	return names, c.waitForNodes(ctx, names)
}

// AddUnplayedNode makes a node that is Ready with a fresh lease and that nobody
// keeps alive: no heartbeat, and pods bound to it stay Pending.
func (c *Cluster) AddUnplayedNode(ctx context.Context) (name string, err error) {
	names, err := c.createNodes(ctx, 1, false)
	if err != nil {
		return "", err
	}
	name = names[0]
	seconds := int32(leaseDuration.Seconds())
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	if _, err := c.client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create lease of node %s: %w", name, err)
	}
	return name, nil
}

// StopNodeHeartbeat makes kwok let go of a node: its lease is not renewed any
// more, its status is not repaired, and its pods freeze in the state they have.
func (c *Cluster) StopNodeHeartbeat(ctx context.Context, node string) error {
	return c.markNode(ctx, node, "null")
}

// StartNodeHeartbeat gives a node (back) to kwok.
func (c *Cluster) StartNodeHeartbeat(ctx context.Context, node string) error {
	return c.markNode(ctx, node, `"`+managedValue+`"`)
}

func (c *Cluster) markNode(ctx context.Context, node, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, managedLabel, value)
	_, err := c.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("label node %s: %w", node, err)
	}
	return nil
}

func (c *Cluster) createNodes(ctx context.Context, n int, played bool) ([]string, error) {
	c.mu.Lock()
	first := c.nodes
	c.nodes += n
	c.mu.Unlock()
	if first+n > maxNodes {
		return nil, fmt.Errorf("create %d nodes: a cluster has at most %d", n, maxNodes)
	}
	names := make([]string, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWorkers)
	for i := range n {
		node := newNode(first+i, played, !c.options.LeaveNodeCIDRs)
		names[i] = node.Name
		group.Go(func() error {
			_, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return names, group.Wait()
}

// newNode describes node number index. Room is ample, so that thousands of pods
// fit on a few nodes.
func newNode(index int, played, withRanges bool) *corev1.Node {
	name := fmt.Sprintf("node-%d", index+1)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("128"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("1000"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{managedLabel: managedValue},
			Labels: map[string]string{
				corev1.LabelHostname:             name,
				corev1.LabelOSStable:             "linux",
				corev1.LabelArchStable:           "amd64",
				corev1.LabelTopologyRegion:       "local",
				corev1.LabelTopologyZone:         fmt.Sprintf("zone-%c", 'a'+index%zones),
				"node-role.kubernetes.io/worker": "",
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Addresses:   nodeAddresses(index, name),
			NodeInfo:    nodeInfo(),
		},
	}
	if withRanges {
		node.Spec.PodCIDRs = nodeRanges(index)
		node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	}
	if played {
		node.Labels[managedLabel] = managedValue
	} else {
		now := metav1.Now()
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message: "kubelet is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now,
		}}
	}
	return node
}

// nodeAddresses gives node number index one address of each family, from
// 172.16.0.0/12 and fd00:172::/64.
func nodeAddresses(index int, name string) []corev1.NodeAddress {
	host := index + 1
	ipv4 := netip.AddrFrom4([4]byte{172, 16, byte(host >> 8), byte(host)})
	ipv6 := netip.AddrFrom16([16]byte{0: 0xfd, 2: 0x01, 3: 0x72, 14: byte(host >> 8), 15: byte(host)})
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: ipv4.String()},
		{Type: corev1.NodeInternalIP, Address: ipv6.String()},
		{Type: corev1.NodeHostName, Address: name},
	}
}

// nodeRanges cuts the ranges of node number index out of ClusterCIDRs.
func nodeRanges(index int) []string {
	first := uint32(10)<<24 | uint32(128)<<16 | uint32(index)<<(32-nodeMaskIPv4)
	ipv4 := netip.AddrFrom4([4]byte{byte(first >> 24), byte(first >> 16), byte(first >> 8), byte(first)})
	ipv6 := netip.AddrFrom16([16]byte{0: 0xfd, 3: 0x10, 4: 0x01, 5: 0x28, 6: byte(index >> 8), 7: byte(index)})
	return []string{
		netip.PrefixFrom(ipv4, nodeMaskIPv4).String(),
		netip.PrefixFrom(ipv6, nodeMaskIPv6).String(),
	}
}

func nodeInfo() corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		Architecture: "amd64", OperatingSystem: "linux", OSImage: "fake", KernelVersion: "fake",
		ContainerRuntimeVersion: "kwok://0", KubeletVersion: kubernetesVersion,
	}
}
