package options

import (
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
)

// clientGates are the feature gates of client-go; flags may change some of them.
type clientGates struct {
	gate  featuregate.MutableVersionedFeatureGate
	fixed map[clientfeatures.Feature]bool
}

// changeable reports whether flags may change a gate of client-go. Read-your-writes depends on AtomicFIFO, and the CBOR gates
// are for clients that this daemon does not have.
func changeable(name clientfeatures.Feature) bool {
	switch name {
	case clientfeatures.WatchListClient, clientfeatures.ClientsAllowCARotation, clientfeatures.ClientsAllowTLSCacheGC,
		clientfeatures.InOrderInformersBatchProcess, clientfeatures.UnlockWhileProcessingFIFO:
		return true
	}
	return false
}

// newClientGates adds the changeable gates of client-go to a feature gate, and keeps the defaults of the others.
func newClientGates(gate featuregate.MutableVersionedFeatureGate) (*clientGates, error) {
	c := &clientGates{gate: gate, fixed: map[clientfeatures.Feature]bool{}}
	return c, clientfeatures.AddVersionedFeaturesToExistingFeatureGates(c)
}

// AddVersioned implements clientfeatures.VersionedRegistry.
func (c *clientGates) AddVersioned(all map[clientfeatures.Feature]clientfeatures.VersionedSpecs) error {
	specs := map[featuregate.Feature]featuregate.VersionedSpecs{}
	for name, versions := range all {
		latest := versions[len(versions)-1]
		if c.fixed[name] = latest.Default; !changeable(name) {
			continue
		}
		stage := map[string]featuregate.FeatureSpec{
			string(clientfeatures.Alpha): {PreRelease: featuregate.Alpha},
			string(clientfeatures.Beta):  {PreRelease: featuregate.Beta},
		}
		spec := stage[string(latest.PreRelease)]
		spec.Default, spec.LockToDefault, spec.Version = latest.Default, latest.LockToDefault, latest.Version
		specs[featuregate.Feature(name)] = featuregate.VersionedSpecs{spec}
	}
	return c.gate.AddVersioned(specs)
}

// Enabled implements clientfeatures.Gates.
func (c *clientGates) Enabled(name clientfeatures.Feature) bool {
	if changeable(name) {
		return c.gate.Enabled(featuregate.Feature(name))
	}
	return c.fixed[name]
}

// ClientGates returns the gates of client-go as the flags set them.
func (g *Gates) ClientGates() clientfeatures.Gates {
	gate, _ := g.resolve()
	client, _ := newClientGates(gate) // they have been added, and adding them again changes nothing
	return client
}
