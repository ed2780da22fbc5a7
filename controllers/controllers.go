package controllers

import (
	"orrery/controllers/cronjob"
	"orrery/controllers/daemonset"
	"orrery/controllers/deployment"
	"orrery/controllers/disruption"
	"orrery/controllers/endpointslice"
	"orrery/controllers/garbagecollector"
	"orrery/controllers/job"
	"orrery/controllers/namespace"
	"orrery/controllers/nodelifecycle"
	"orrery/controllers/nodepool"
	"orrery/controllers/podgc"
	"orrery/controllers/replicaset"
	"orrery/controllers/replicationcontroller"
	"orrery/controllers/rootcapublisher"
	"orrery/controllers/serviceaccount"
	"orrery/controllers/serviceaccounttoken"
	"orrery/controllers/statefulset"
	"orrery/controllers/tainteviction"
	"orrery/controllers/ttlafterfinished"
	"orrery/kit"
	"orrery/options"
)

// All returns the controllers in the order in which they start. The one that mints service account tokens is first.
func All(s *options.Shared) []kit.Descriptor {
	return []kit.Descriptor{
		serviceaccounttoken.Descriptor(s),
		cronjob.Descriptor(),
		daemonset.Descriptor(),
		deployment.Descriptor(),
		disruption.Descriptor(),
		endpointslice.Descriptor(),
		garbagecollector.Descriptor(),
		job.Descriptor(),
		namespace.Descriptor(),
		nodelifecycle.Descriptor(),
		nodepool.Descriptor(),
		podgc.Descriptor(),
		replicaset.Descriptor(),
		replicationcontroller.Descriptor(),
		rootcapublisher.Descriptor(s),
		serviceaccount.Descriptor(),
		statefulset.Descriptor(),
		tainteviction.Descriptor(),
		ttlafterfinished.Descriptor(),
	}
}
