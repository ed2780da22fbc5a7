package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	manager = "kube-controller-manager"
	// rest is the pod and the lease of upstream's manager beside Orrery.
	rest = manager + "-rest"
)

// imageLine is the line of a manifest, or of a patch for one, that names its image. There is one container.
var imageLine = regexp.MustCompile(`(?m)^\s+image: (\S+)$`)

func imageIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("find the image: %w", err)
	}
	found := imageLine.FindAllSubmatch(text, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("%s names %d images and not one", path, len(found))
	}
	return string(found[0][1]), nil
}

// switchTo puts one manager in the other's place with the commands of the documentation.
func (n *node) switchTo(ctx context.Context, to string) error {
	begin := time.Now()
	if _, err := n.running(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(n.repo, "docs", "install.md"))
	if err != nil {
		return fmt.Errorf("read how to install: %w", err)
	}
	name, err := imageIn(filepath.Join(n.repo, "manifests", "kubeadm", manager+"+strategic.yaml"))
	if err != nil {
		return err
	}
	before, err := imageIn(n.path("kubernetes", "manifests", manager+".yaml"))
	if err != nil {
		return err
	}
	leases := []string{manager, rest}
	var commands string
	switch {
	case to != "orrery" && to != "upstream":
		return fmt.Errorf("switch to %q: want orrery or upstream", to)
	case (to == "orrery") == (before == name):
		fmt.Printf("%s is the manager already\n", to)
		return nil
	case to == "orrery":
		commands, err = documented(string(text), "2. Make both manifests", "4. Check that Orrery has taken over")
		if err == nil {
			err = n.provide(ctx, name)
		}
	default:
		commands, err = documented(string(text), "## Go back", "or")
		name, leases = "", leases[:1]
	}
	if err != nil {
		return err
	}
	holders, err := n.holders(ctx, leases)
	if err != nil {
		return err
	}
	cmd, err := n.inside(ctx, "sh", "-ec", "ORRERY="+n.dir+"\n"+commands)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("follow the documentation: %w: %s", err, bytes.TrimSpace(out))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, fmt.Errorf("%s does not lead after %v", to, n.timeout))
	defer cancel()
	if err := n.awaitManager(ctx, name, leases, holders); err != nil {
		return err
	}
	fmt.Printf("%s leads after %.1f s\n", to, time.Since(begin).Seconds())
	return nil
}

// documented returns the commands, which are the indented lines, between two lines of a text.
func documented(text, from, to string) (string, error) {
	_, rest, found := strings.Cut("\n"+text, "\n"+from)
	body, _, ended := strings.Cut(rest, "\n"+to)
	if !found || !ended {
		return "", fmt.Errorf("the documentation has no passage from %q to %q", from, to)
	}
	var commands []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "    ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	if len(commands) == 0 {
		return "", fmt.Errorf("the documentation has no command between %q and %q", from, to)
	}
	return strings.Join(commands, "\n"), nil
}

// provide puts onto the node what the documentation takes for granted: the image, and a copy of the manifests.
func (n *node) provide(ctx context.Context, name string) error {
	img := image{name: name, entries: "orrery," + manager}
	if err := n.importImage(ctx, img, n.orrery); err != nil {
		return err
	}
	if err := os.RemoveAll(n.path("manifests")); err != nil {
		return err
	}
	if err := os.CopyFS(n.path("manifests"), os.DirFS(filepath.Join(n.repo, "manifests"))); err != nil {
		return fmt.Errorf("copy manifests: %w", err)
	}
	return nil
}

// awaitManager waits until the managers' pods are ready and each has got its lease. An empty name is upstream's image.
func (n *node) awaitManager(ctx context.Context, name string, leases []string, before map[string]string) error {
	if name == "" {
		name = "registry.k8s.io/" + manager + ":" + version
	}
	for {
		var pods string
		now, err := n.holders(ctx, leases)
		if err == nil {
			pods, err = n.ask(ctx, "get", "pods", "-l", "tier=control-plane", "-o",
				`jsonpath={range .items[*]}{.metadata.name} {.spec.containers[0].image} {.status.containerStatuses[0].ready}{"\n"}{end}`)
		}
		done := err == nil && strings.Contains(pods, manager+"-"+n.hostname()+" "+name+" true") &&
			strings.Contains(pods, rest+"-"+n.hostname()) == (len(leases) > 1)
		for _, lease := range leases {
			done = done && now[lease] != "" && now[lease] != before[lease]
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), fmt.Errorf("the pods are\n%s\nand the leases %v", pods, now), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// holders returns who has each of the leases; nobody has one that does not exist.
func (n *node) holders(ctx context.Context, leases []string) (map[string]string, error) {
	holders := map[string]string{}
	for _, lease := range leases {
		holder, err := n.ask(ctx, "get", "lease", lease, "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil {
			return nil, err
		}
		holders[lease] = holder
	}
	return holders, nil
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

// load packs static binaries as an image and imports it.
func (n *node) load(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("load takes NAME:TAG BINARY [ENTRY,...]")
	}
	img := image{name: args[0], user: "0:0"}
	if len(args) == 3 {
		img.entries = args[2]
	}
	return n.importImage(ctx, img, args[1])
}

func (n *node) importImage(ctx context.Context, img image, binary string) error {
	archive, err := n.archive(ctx, img, binary)
	if err != nil {
		return err
	}
	// The node reads it through a descriptor, as the machine's newest files may not be those that it sees.
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd, err := n.inside(ctx, "ctr", "--namespace", "k8s.io", "images", "import", "-")
	if err != nil {
		return err
	}
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s: %w: %s", img.name, err, bytes.TrimSpace(out))
	}
	return nil
}
