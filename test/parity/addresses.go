package main

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// addressed is the annotation of a pod with its addresses, with commas between them. They are the same in both clusters, and
// compared, if they are of the ranges in given.
const addressed = "parity/addresses"

// given are the ranges of addresses that programs name.
const given = "10.77."

// serviceAddress is an address of the IPv6 range of Services.
var serviceAddress = regexp.MustCompile(`fd00:10:96::[0-9a-f:]*`)

// withoutAddresses replaces those that the server or the kubelet has drawn.
func withoutAddresses(text string) string {
	text = address.ReplaceAllStringFunc(text, func(ip string) string {
		if strings.HasPrefix(ip, given) {
			return ip
		}
		return "<ip>"
	})
	return serviceAddress.ReplaceAllString(text, "<ip>")
}

// setAddresses gives a pod its addresses: those of its annotation, or one of its own that is drawn from its name.
func setAddresses(pod *corev1.Pod) {
	list, found := pod.Annotations[addressed]
	if !found {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(pod.Namespace + "/" + pod.Name)) // never fails
		n := sum.Sum32()
		list = fmt.Sprintf("10.%d.%d.%d", 128+n>>16&0x7f, n>>8&0xff, 1+n&0x7f)
	}
	pod.Status.PodIP, pod.Status.PodIPs = "", nil
	for ip := range strings.SplitSeq(list, ",") {
		if ip == "" {
			continue
		}
		if pod.Status.PodIP == "" {
			pod.Status.PodIP = ip
		}
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
}
