package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"orrery/kit/selfsigned"
)

// The images that only the specs of the end-to-end tests ask for.
const (
	agnhostBefore = "registry.k8s.io/e2e-test-images/agnhost:2.55"
	nginxImage    = "registry.k8s.io/e2e-test-images/nginx:1.27.0-2"
	nginxNewImage = "registry.k8s.io/e2e-test-images/nginx:1.28.0-2"
)

// suite returns the images of the end-to-end tests and the binaries to pack them of. The commands of the specs want a shell
// with its tools, curl and OpenBSD's netcat in agnhost's image, which has them from its distribution and here from this
// machine.
func (n *node) suite(ctx context.Context, agnhost, busybox string) ([]source, error) {
	root := n.path("suite")
	if err := n.fillSuite(ctx, root, busybox); err != nil {
		return nil, fmt.Errorf("gather the tools of the end-to-end tests: %w", err)
	}
	return []source{
		{agnhost, image{name: agnhostImage, entries: "/agnhost,/agnhost-2", arguments: "pause", user: "0:0", root: root}},
		{agnhost, image{name: agnhostBefore, entries: "/agnhost,/agnhost-2", arguments: "pause", user: "0:0", root: root}},
		{busybox, image{name: nginxImage, entries: "/bin/busybox," + applets, entrypoint: "/bin/httpd -f -p 80", user: "0:0"}},
		{busybox, image{name: nginxNewImage, entries: "/bin/busybox," + applets, entrypoint: "/bin/httpd -f -p 80", user: "0:0"}},
	}, nil
}

func (n *node) fillSuite(ctx context.Context, root, busybox string) error {
	for _, dir := range []string{"bin", "etc", "tmp", "uploads", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	// The specs ask their servers for a certificate by its name, to see whether they serve.
	bundle, err := selfsigned.New([]string{"localhost"}, time.Now(), 24*time.Hour)
	if err != nil {
		return err
	}
	for path, text := range map[string]string{
		"localhost.crt": string(bundle.Cert), "localhost.key": string(bundle.Key),
		"etc/passwd": "root:x:0:0:root:/:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n",
		"etc/group":  "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
	} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(root, "bin/busybox"), busybox); err != nil {
		return err
	}
	list, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("list applets: %w", err)
	}
	for name := range strings.FieldsSeq(string(list)) {
		if !slices.Contains(tools[:], name) {
			if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
				return err
			}
		}
	}
	return errors.Join(
		addDynamic(ctx, root, "dash", "bin/sh"), addDynamic(ctx, root, "curl", "bin/curl"),
		addDynamic(ctx, root, "wget", "bin/wget"), addDynamic(ctx, root, "nc.openbsd", "bin/nc"))
}

// tools are the names under which the image has no applet of Debian's busybox: its shell would prefer the applets to all
// other programs, its netcat lacks options, and its wget dies of -T.
var tools = [...]string{"busybox", "sh", "curl", "wget", "nc"}

// addDynamic copies a program of this machine and the libraries that it is linked with.
func addDynamic(ctx context.Context, root, program, as string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("no %s (Debian: apt-get install curl wget netcat-openbsd)", program)
	}
	out, err := exec.CommandContext(ctx, "ldd", path).Output()
	if err != nil {
		return fmt.Errorf("list libraries of %s: %w", program, err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if !filepath.IsAbs(word) {
			continue
		}
		if err := copyFile(filepath.Join(root, word), word); err != nil {
			return err
		}
	}
	return copyFile(filepath.Join(root, as), path)
}

// copyFile copies a program or a library.
func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}
