package slim

import "orrery/kit/wire"

// podOnWire returns the fields of a pod that need not be decoded, because pod drops them. It must not name any that pod
// keeps. The numbers are those of k8s.io/api/core/v1/generated.proto.
func podOnWire() wire.Message {
	containers := wire.Message{Keep: []int{1, 6, 8, 24, 25}} // name, ports, resources, restartPolicy, restartPolicyRules
	ephemeral := wire.Message{Keep: []int{1}, In: map[int]wire.Message{1: {Keep: []int{1}}}}
	// Volumes with claims and claim templates are kept.
	volumes := wire.Message{In: map[int]wire.Message{2: {Needs: []int{10, 29}}}, Needs: []int{2}}
	statuses := wire.Message{Drop: []int{3, 6, 7, 8, 10, 11, 12, 13, 14}} // lastState, image, imageID, containerID, allocatedResources to allocatedResourcesStatus
	return wire.Message{In: map[int]wire.Message{
		2: {
			Drop: []int{14, 15, 23, 26, 30}, // securityContext, imagePullSecrets, hostAliases, dnsConfig, enableServiceLinks
			In:   map[int]wire.Message{1: volumes, 2: containers, 20: containers, 34: ephemeral},
		},
		3: {
			Drop: []int{16}, // hostIPs
			In:   map[int]wire.Message{8: statuses, 10: statuses, 13: statuses},
		},
	}}
}

// nodeOnWire returns the fields of a node that need not be decoded: the images.
func nodeOnWire() wire.Message {
	return wire.Message{In: map[int]wire.Message{3: {Drop: []int{8}}}}
}
