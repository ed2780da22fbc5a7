package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

const (
	orreryImage = "docker.io/library/orrery:realnode"
	manager     = "kube-controller-manager"
)

// imageLine is the line of a static pod's manifest that names its image. There is one container.
var imageLine = regexp.MustCompile(`(?m)^(\s+image: ).*$`)

// switchTo puts a manager in the other's place as the documentation says: it imports the image and edits one line.
func (n *node) switchTo(ctx context.Context, to string) error {
	begin := time.Now()
	if _, err := n.running(); err != nil {
		return err
	}
	name := "registry.k8s.io/" + manager + ":" + version
	switch to {
	case "upstream":
	case "orrery":
		name = orreryImage
		if err := n.load(ctx, []string{name, n.orrery, "orrery," + manager}); err != nil {
			return err
		}
	default:
		return fmt.Errorf("switch to %q: want orrery or upstream", to)
	}
	holder, err := n.holder(ctx)
	if err != nil {
		return err
	}
	changed, err := n.editManifest(name)
	if err != nil {
		return err
	}
	if !changed {
		fmt.Printf("%s is the manager already\n", to)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, fmt.Errorf("%s does not lead after %v", to, n.timeout))
	defer cancel()
	if err := n.awaitManager(ctx, name, holder); err != nil {
		return err
	}
	fmt.Printf("%s leads after %.1f s\n", to, time.Since(begin).Seconds())
	return nil
}

// editManifest names the image, and reports whether another was named. The kubelet must not see half a file.
func (n *node) editManifest(name string) (bool, error) {
	path := n.path("kubernetes", "manifests", manager+".yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("read the manager's manifest: %w", err)
	}
	if found := imageLine.FindAll(text, -1); len(found) != 1 {
		return false, fmt.Errorf("the manager's manifest names %d images and not one", len(found))
	}
	edited := imageLine.ReplaceAll(text, []byte("${1}"+name))
	if bytes.Equal(edited, text) {
		return false, nil
	}
	part := n.path("kubernetes", manager+".part")
	if err := os.WriteFile(part, edited, 0o600); err != nil {
		return false, fmt.Errorf("write the manager's manifest: %w", err)
	}
	return true, os.Rename(part, path)
}

// awaitManager waits until the manager's pod runs the image, is ready, and has the lease.
func (n *node) awaitManager(ctx context.Context, name, before string) error {
	for {
		pod, err := n.ask(ctx, "get", "pod", manager+"-"+n.hostname(), "-o",
			"jsonpath={.spec.containers[0].image} {.status.containerStatuses[0].ready}")
		holder := ""
		if err == nil {
			holder, err = n.holder(ctx)
		}
		if err == nil && pod == name+" true" && holder != "" && holder != before {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), fmt.Errorf("the pod is %q, the lease is of %q", pod, holder), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// holder returns who has the manager's lease.
func (n *node) holder(ctx context.Context) (string, error) {
	return n.ask(ctx, "get", "lease", manager, "-o", "jsonpath={.spec.holderIdentity}")
}

// ask returns kubectl's answer about kube-system.
func (n *node) ask(ctx context.Context, args ...string) (string, error) {
	cmd, err := n.kubectlCommand(ctx, append([]string{"-n", "kube-system"}, args...)...)
	if err != nil {
		return "", err
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}

// load packs a static binary as an image and imports it.
func (n *node) load(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("load takes NAME:TAG BINARY [ENTRY,...]")
	}
	img := image{name: args[0]}
	if len(args) == 3 {
		img.entries = args[2]
	}
	archive, err := n.archive(ctx, img, args[1])
	if err != nil {
		return err
	}
	// The node reads it through a descriptor, as the machine's files may not be those that it sees.
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd, err := n.inside(ctx, "ctr", "-n", "k8s.io", "images", "import", "-")
	if err != nil {
		return err
	}
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s: %w: %s", img.name, err, bytes.TrimSpace(out))
	}
	return nil
}
