package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Listening ports are taken from below the kernel's range for outgoing
// connections (32768 and up). A port from that range that is free now can be
// the local end of some client's connection a moment later.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePorts returns n different ports on 127.0.0.1 on which nothing listens. They are
// all held while the choice is made, and drawn at random, so that clusters that
// start at the same time rarely choose the same.
func freePorts(n int) ([]int, error) {
	var ports []int
	for attempts := 0; len(ports) < n; attempts++ {
		if attempts > 100*n {
			return nil, errors.New("find free ports on 127.0.0.1: none left")
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer listener.Close()
		ports = append(ports, port)
	}
	return ports, nil
}
