// Package faultproxy stands between a client and the API server of a local
// cluster and misbehaves as it is told: it refuses requests, loses answers,
// delays what a watch shows, and cuts connections.
//
// It is an HTTPS server with a certificate of the cluster's authority. It
// vouches for client certificates as the front proxy of the cluster and hands
// tokens on, so that the client keeps its own identity.
package faultproxy
