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
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if out, err := exec.Command("unshare", append(namespaces, "sh", "-ec", attempt)...).CombinedOutput(); err != nil {
		return fmt.Errorf("what a node does in namespaces of its own is not allowed here: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// attempt is a bit of all that a node does. A sandbox may refuse it to root, too.
const attempt = `mount -t tmpfs attempt /mnt && mkdir /mnt/a /mnt/b /mnt/c /mnt/d &&
mount -t overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/c attempt /mnt/d &&
ip link add attempt type bridge && iptables -t nat -S`

var namespaces = []string{"--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup", "--fork"}
