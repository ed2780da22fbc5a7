package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// subject is a group of specs, and the controllers that decide them. The garbage collector and the namespace and service
// account controllers take part in every spec and are named only where they are what is tested.
type subject struct {
	name        string
	match       *regexp.Regexp
	controllers []string
}

// services is the group of specs about traffic, which there is on a real node only.
var services = subject{"Services", begins(`[sig-network] Services`, `[sig-network] Endpoints `), []string{"endpointslice-controller", "endpoints-controller"}}

// subjects are all groups; a spec belongs to the first that matches its name.
var subjects = []subject{
	{"Deployment", begins(`[sig-apps] Deployment`), []string{"deployment-controller", "replicaset-controller"}},
	{"ReplicaSet", begins(`[sig-apps] ReplicaSet`), []string{"replicaset-controller"}},
	{"ReplicationController", begins(`[sig-apps] ReplicationController`), []string{"replicationcontroller-controller"}},
	{"Job", begins(`[sig-apps] Job`), []string{"job-controller"}},
	{"CronJob", begins(`[sig-apps] CronJob`), []string{"cronjob-controller", "job-controller"}},
	{"StatefulSet", begins(`[sig-apps] StatefulSet`), []string{"statefulset-controller"}},
	{"DaemonSet", begins(`[sig-apps] Daemon set`), []string{"daemonset-controller"}},
	{"ControllerRevision", begins(`[sig-apps] ControllerRevision`), []string{"daemonset-controller"}},
	{"Disruption", begins(`[sig-apps] DisruptionController`), []string{"disruption-controller"}},
	{"TTLAfterFinished", begins(`[sig-apps] TTLAfterFinished`), []string{"ttl-after-finished-controller", "job-controller"}},
	{"Garbage collector", begins(`[sig-api-machinery] Garbage collector`), []string{"garbage-collector-controller"}},
	{"Namespaces", begins(`[sig-api-machinery] Namespaces`), []string{"namespace-controller"}},
	{"OrderedNamespaceDeletion", begins(`[sig-api-machinery] OrderedNamespaceDeletion`), []string{"namespace-controller"}},
	{"ResourceQuota", begins(`[sig-api-machinery] ResourceQuota`), []string{"resourcequota-controller"}},
	{"ServiceAccounts", begins(`[sig-auth] ServiceAccounts`), []string{"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller"}},
	{"EndpointSliceMirroring", begins(`[sig-network] EndpointSliceMirroring`), []string{"endpointslice-mirroring-controller"}},
	{"EndpointSlice", begins(`[sig-network] EndpointSlice `), []string{"endpointslice-controller", "endpoints-controller"}},
	{"Endpoints", begins(`[sig-network] EndpointsController`), []string{"endpoints-controller"}},
	{"Service CIDRs", begins(`[sig-network] Service CIDRs`, `[sig-network] ServiceCIDR and IPAddress`), []string{"service-cidr-controller"}},
	{"Taint eviction", begins(`[sig-node] NoExecuteTaintManager`), []string{"taint-eviction-controller"}},
	{"PVC protection", begins(`[sig-storage] PVC Protection`), []string{"persistentvolumeclaim-protection-controller"}},
	{"PV protection", begins(`[sig-storage] PV Protection`), []string{"persistentvolume-protection-controller"}},
}

func begins(prefixes ...string) *regexp.Regexp {
	for i, prefix := range prefixes {
		prefixes[i] = regexp.QuoteMeta(prefix)
	}
	return regexp.MustCompile("^(" + strings.Join(prefixes, "|") + ")")
}

// subjectOf returns the subject of a spec.
func subjectOf(name string) (subject, bool) {
	if services.match.MatchString(name) {
		return services, true
	}
	i := slices.IndexFunc(subjects, func(s subject) bool { return s.match.MatchString(name) })
	if i < 0 {
		return subject{}, false
	}
	return subjects[i], true
}

// controllers tells which controllers Orrery has: by name, whether each runs without having been asked for.
type controllers map[string]bool

func (c controllers) has(name string) bool {
	_, built := c[name]
	return built
}

// readControllers asks the binary.
func readControllers(ctx context.Context, path string) (controllers, error) {
	out, err := exec.CommandContext(ctx, path, "controllers", "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("list the controllers of %s: %w", path, err)
	}
	var rows []struct {
		Name    string
		Built   bool
		Default string
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return nil, fmt.Errorf("list the controllers of %s: %w", path, err)
	}
	built := controllers{}
	for _, row := range rows {
		if row.Built {
			built[row.Name] = row.Default == "on"
		}
	}
	return built, nil
}

// deciders says who decides a subject: Orrery, upstream beside it, or both.
func (c controllers) deciders(s subject) string {
	own := 0
	for _, name := range s.controllers {
		if c.has(name) {
			own++
		}
	}
	switch own {
	case len(s.controllers):
		return "Orrery"
	case 0:
		return "upstream beside Orrery"
	}
	return "both"
}

// optional are controllers of upstream's that do not run unless asked for.
var optional = map[string]string{"bootstrap-signer-controller": "bootstrapsigner", "token-cleaner-controller": "tokencleaner"}

// beside returns the arguments with which upstream's manager leaves alone what Orrery has. Of the controllers that do not
// run by themselves upstream needs only the ones it is to run, and does not know all.
func (c controllers) beside() []string {
	names := []string{"*"}
	for _, name := range slices.Sorted(maps.Keys(optional)) {
		if !c.has(name) {
			names = append(names, optional[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if c[name] {
			names = append(names, "-"+name)
		}
	}
	return []string{
		"--leader-elect-resource-name=kube-controller-manager-rest",
		"--controllers=" + strings.Join(names, ","),
	}
}
