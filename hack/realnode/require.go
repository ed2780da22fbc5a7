package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pluginDir is where Debian puts the CNI plugins.
const pluginDir = "/usr/lib/cni"

// programs are what a node needs of this machine, and the packages of Debian that have them.
var programs = map[string]string{
	"containerd": "containerd", "ctr": "containerd", "containerd-shim-runc-v2": "containerd", "runc": "runc",
	"ip": "iproute2", "iptables": "iptables", "nsenter": "util-linux", "busybox": "busybox-static",
	filepath.Join(pluginDir, "bridge"):     "containernetworking-plugins",
	filepath.Join(pluginDir, "host-local"): "containernetworking-plugins",
	filepath.Join(pluginDir, "portmap"):    "containernetworking-plugins",
	filepath.Join(pluginDir, "loopback"):   "containernetworking-plugins",
}

// requirements returns everything that this machine lacks.
func requirements() error {
	var errs []error
	if os.Getuid() != 0 {
		errs = append(errs, errors.New("not root"))
	}
	for program, name := range programs {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("no %s (Debian: apt-get install %s)", filepath.Base(program), name))
		}
	}
	systems, err := os.ReadFile("/proc/filesystems")
	if err != nil || !strings.Contains(string(systems), "\toverlay\n") {
		errs = append(errs, errors.New("the kernel has no overlay file system"))
	}
	return errors.Join(errs...)
}
