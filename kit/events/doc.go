// Package events publishes Events about objects.
//
// As everywhere in Kubernetes, similar events are aggregated and floods are limited; here, events over the limit are dropped
// before they cost anything. A recorder never blocks its caller. A process that shuts down gracefully flushes what it has
// buffered.
package events
