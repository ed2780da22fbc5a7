package inside

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// cloneNewCgroup is the flag of a cgroup namespace, which package syscall lacks on some architectures.
const cloneNewCgroup = 0x02000000

// isolate turns the process, which is the first in its namespaces, into that of a machine of its own.
func isolate(p Plan) error {
	runtime.LockOSThread() // namespaces are entered by threads
	if _, err := io.Copy(io.Discard, os.NewFile(held, "held")); err != nil {
		return fmt.Errorf("wait for the cgroups: %w", err)
	}
	if err := syscall.Unshare(cloneNewCgroup); err != nil {
		return fmt.Errorf("make cgroup namespace: %w", err)
	}
	if err := syscall.Sethostname([]byte(p.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	hierarchies, err := cgroupMounts()
	if err != nil {
		return err
	}
	root, err := mountRoot(p)
	if err != nil {
		return err
	}
	if err := pivot(root); err != nil {
		return err
	}
	if err := mountKernel(hierarchies); err != nil {
		return err
	}
	// The thread that calls becomes the process, in the namespaces that it has entered.
	return syscall.Exec("/proc/self/exe", []string{"realnode", second, p.Dir}, append(os.Environ(), "HOME=/root"))
}

// mount calls mount and names what failed.
func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// mountRoot lays an overlay over the machine's root file system, and the node's own folders into it.
func mountRoot(p Plan) (string, error) {
	in := func(name string) string { return filepath.Join(p.Dir, name) }
	root := in("root")
	// Nothing that is mounted from here on is to be seen outside.
	if err := mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return "", err
	}
	layers := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", in("upper"), in("work"))
	if err := mount("overlay", root, "overlay", 0, layers); err != nil {
		return "", err
	}
	binds := map[string]string{"/dev": "/dev", p.Dir: p.Dir}
	for dir, path := range kept {
		binds[in(dir)] = path
	}
	for source, path := range binds {
		target := filepath.Join(root, path)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return "", fmt.Errorf("make mount point: %w", err)
		}
		flags := uintptr(syscall.MS_BIND)
		if source == "/dev" {
			flags |= syscall.MS_REC
		}
		if err := mount(source, target, "", flags, ""); err != nil {
			return "", err
		}
	}
	return root, mount("tmpfs", filepath.Join(root, "run"), "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755")
}

// pivot makes a folder the root, and lets go of the old one.
func pivot(root string) error {
	old := filepath.Join(root, "run", "old")
	if err := os.Mkdir(old, 0o700); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	// The new file systems of the kernel must be there before the last one that shows all of them goes.
	for _, m := range []struct{ kind, path string }{{"proc", "proc"}, {"sysfs", "sys"}} {
		if err := mount(m.kind, filepath.Join(root, m.path), m.kind, syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
			return err
		}
	}
	if err := syscall.PivotRoot(root, old); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := syscall.Unmount("/run/old", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	// The kubelet's and the containers' mounts have to reach each other.
	return errors.Join(os.Remove("/run/old"), mount("none", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""))
}

// hierarchy is one mount of a cgroup hierarchy.
type hierarchy struct{ path, kind, options string }

// cgroupMounts returns the machine's.
func cgroupMounts() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var found []hierarchy
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[2] != "cgroup" && fields[2] != "cgroup2" {
			continue
		}
		h := hierarchy{path: fields[1], kind: fields[2]}
		if h.kind == "cgroup" {
			var options []string
			for option := range strings.SplitSeq(fields[3], ",") {
				if option != "rw" && option != "relatime" && !strings.HasPrefix(option, "no") {
					options = append(options, option)
				}
			}
			h.options = strings.Join(options, ",")
		}
		found = append(found, h)
	}
	return found, nil
}

// mountKernel mounts the cgroup hierarchies as this namespace sees them.
func mountKernel(hierarchies []hierarchy) error {
	const base = "/sys/fs/cgroup"
	if len(hierarchies) == 1 && hierarchies[0].path == base {
		if err := mount("cgroup2", base, "cgroup2", 0, ""); err != nil {
			return err
		}
		return delegate(base)
	}
	if err := mount("tmpfs", base, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := os.MkdirAll(h.path, 0o755); err != nil {
			return fmt.Errorf("make mount point: %w", err)
		}
		if err := mount(h.kind, h.path, h.kind, 0, h.options); err != nil {
			return err
		}
	}
	return nil
}

// delegate lets the groups below the root of version 2 have controllers, which they may not while the root has processes.
func delegate(base string) error {
	leaf := filepath.Join(base, "init")
	if err := os.Mkdir(leaf, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("1"), 0o644); err != nil {
		return fmt.Errorf("enter cgroup: %w", err)
	}
	have, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("list cgroup controllers: %w", err)
	}
	var all []string
	for name := range strings.FieldsSeq(string(have)) {
		all = append(all, "+"+name)
	}
	if err := os.WriteFile(filepath.Join(base, "cgroup.subtree_control"), []byte(strings.Join(all, " ")), 0o644); err != nil {
		return fmt.Errorf("hand on cgroup controllers: %w", err)
	}
	return nil
}
