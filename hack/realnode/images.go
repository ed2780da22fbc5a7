package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const version = "v1.37.2" // of everything that the local cluster builds

// source is an image and the binary that it is made of.
type source struct {
	binary string
	image
}

// image is an image that is made of a static binary.
type image struct {
	name    string
	entries string // names in the image, as the packing tool takes them
	user    string // as which it runs, if not as the tool's default

	entrypoint string // what runs it, if not the first entry
	arguments  string // what it is given if a pod says nothing
	root       string // a folder with what else is in it, or none
}

// build returns the paths of the programs of Kubernetes that the node consists of, by name.
func (n *node) build(ctx context.Context) (map[string]string, error) {
	names := []string{
		"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kubelet", "kubeadm", "kube-proxy", "agnhost",
	}
	if n.forSuite {
		names = append(names, "coredns")
	}
	cmd := exec.CommandContext(ctx, n.localcluster, append([]string{"build"}, names...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("build the programs of Kubernetes: %w", err)
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path := strings.TrimSpace(line)
		paths[filepath.Base(path)] = path
	}
	for _, name := range names {
		if paths[name] == "" {
			return nil, fmt.Errorf("build the programs of Kubernetes: no %s among %s", name, out)
		}
	}
	return paths, nil
}

// kubeadmImages returns the names of the images in the manifests that kubeadm writes, by their last part.
func kubeadmImages(ctx context.Context, kubeadm string) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, kubeadm, "config", "images", "list", "--kubernetes-version="+version).Output()
	if err != nil {
		return nil, fmt.Errorf("list kubeadm's images: %w", err)
	}
	names := map[string]string{}
	for name := range strings.FieldsSeq(string(out)) {
		base, _, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
		names[base] = name
	}
	return names, nil
}

// pack makes the archives of the images that the node starts with, and returns their paths.
func (n *node) pack(ctx context.Context, built, names map[string]string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	all := []source{
		{built["etcd"], image{name: names["etcd"], entries: "etcd", user: "0:0"}},
		{built["kube-apiserver"], image{name: names["kube-apiserver"], entries: "kube-apiserver", user: "0:0"}},
		{built["kube-scheduler"], image{name: names["kube-scheduler"], entries: "kube-scheduler", user: "0:0"}},
		{built[manager], image{name: names[manager], entries: manager, user: "0:0"}},
		{self, image{name: names["pause"], entries: "pause", user: "0:0"}},
		{busybox, image{name: busyboxImage, entries: "/bin/busybox," + applets, user: "0:0"}},
	}
	if n.forSuite {
		more, err := n.suite(ctx, built["agnhost"], busybox)
		if err != nil {
			return nil, err
		}
		all = append(append(all, more...), source{built["coredns"], image{name: names["coredns"], entries: "/coredns", user: "0:0"}})
	} else {
		all = append(all, source{built["agnhost"], image{name: agnhostImage, entries: "/agnhost", arguments: "pause", user: "0:0"}})
	}
	var archives []string
	for _, s := range all {
		archive, err := n.archive(ctx, s.image, s.binary)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// archive packs one image, unless the same one is there already.
func (n *node) archive(ctx context.Context, img image, binary string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return "", fmt.Errorf("pack %s: %w", img.name, err)
	}
	sum := fnv.New64a()
	size, err := weigh(img.root)
	if err != nil {
		return "", fmt.Errorf("pack %s: %w", img.name, err)
	}
	kind := img
	kind.root = "" // the same files are the same image wherever they are
	fmt.Fprintln(sum, kind, binary, info.Size(), info.ModTime().UnixNano(), size)
	stem := strings.NewReplacer("/", "_", ":", "_").Replace(img.name)
	path := filepath.Join(cache, "images", fmt.Sprintf("%s-%016x.tar", stem, sum.Sum64()))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	older, _ := filepath.Glob(filepath.Join(cache, "images", stem+"-????????????????.tar"))
	for _, old := range older {
		_ = os.Remove(old)
	}
	args := []string{"-binary", binary, "-name", img.name, "-o", path}
	for flag, value := range map[string]string{"-user": img.user, "-entry": img.entries, "-entrypoint": img.entrypoint, "-cmd": img.arguments, "-root": img.root} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	cmd := exec.CommandContext(ctx, n.imageTool, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pack %s: %w: %s", img.name, err, bytes.TrimSpace(out))
	}
	return path, nil
}

// weigh returns what tells one folder's content from another's: how many files it has, and their size.
func weigh(root string) (size [2]int64, err error) {
	if root == "" {
		return size, nil
	}
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size[0], size[1] = size[0]+1, size[1]+info.Size()
		}
		return err
	})
	return size, err
}

// The images of the end-to-end tests that every node has, under the names that Kubernetes' own suite gives them.
const (
	agnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"
	busyboxImage = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"
)

// applets are the names under which busybox is found in its image.
const applets = "/bin/sh,/bin/httpd,/bin/sleep,/bin/cat,/bin/echo,/bin/ls,/bin/mkdir,/bin/mv,/bin/rm,/bin/cp,/bin/touch,/bin/wget," +
	"/bin/nc,/bin/test,/bin/true,/bin/false,/bin/date,/bin/hostname,/bin/id,/bin/env,/bin/grep,/bin/seq,/bin/stat,/bin/chmod,/bin/expr"
