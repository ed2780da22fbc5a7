package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"orrery/hack/localcluster/cluster"
)

// ofRealNodes are the specs that mean more where containers run: they look at what these serve, mount or end with.
var ofRealNodes = regexp.MustCompile(`^\[sig-apps\] (Job|StatefulSet|Replica.* should serve a basic image)|^\[sig-auth\] ServiceAccounts|^\[sig-network\] EndpointSlice |^\[sig-network\] (Services|Endpoints) .*\[Conformance\]`)

// unfit are specs that a node without a way out of its network, or without company, cannot decide.
var unfit = regexp.MustCompile(`CockroachDB|private image|LoadBalancer|after restarting`)

// forReal reports whether a spec is one for a real node, and whether it is left to a person with time.
func forReal(one spec) bool {
	return ofRealNodes.MatchString(one.name) && !unfit.MatchString(one.name) && !one.has("Slow") && !one.has("Disruptive")
}

// realnode runs the program that makes nodes for the one that a manager has, and shows what it prints.
func (s settings) realnode(ctx context.Context, kind cluster.ManagerKind, args ...string) error {
	cmd := exec.CommandContext(ctx, s.realTool, append([]string{"-name", realName(kind)}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("realnode %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// measureReal runs the specs with one manager on a fresh node and writes the result.
func measureReal(ctx context.Context, s settings, suite cluster.Suite, kind cluster.ManagerKind, dir, name string, specs []spec) (_ *result, err error) {
	if err := s.realnode(ctx, kind, "down"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.realnode(context.WithoutCancel(ctx), kind, "down")) }()
	if err := s.realnode(ctx, kind, "up", "-suite"); err != nil {
		return nil, err
	}
	if kind == cluster.Orrery {
		if err := s.realnode(ctx, kind, "switch", "-orrery-bin="+s.orrery, "orrery"); err != nil {
			return nil, err
		}
	}
	kubeconfig, err := realKubeconfig(kind)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the node's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := addStorageClass(ctx, client); err != nil {
		return nil, err
	}
	r := &runner{suite: suite, kubeconfig: kubeconfig, dir: dir, procs: s.procs, nodes: 1}
	got := &result{Manager: name, Kubernetes: suite.Version, Started: time.Now().UTC()}
	err = r.all(ctx, specs, s.attempts, got)
	got.Seconds = time.Since(got.Started).Seconds()
	return got, errors.Join(err, got.write(filepath.Join(s.out, name+".json")))
}

// realName is the name of the node for a manager.
func realName(kind cluster.ManagerKind) string { return "conformance-" + string(kind) }

// realKubeconfig is where the tool puts it.
func realKubeconfig(kind cluster.ManagerKind) (string, error) {
	base := os.Getenv("ORRERY_CACHE")
	if base == "" {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("find cache folder: %w", err)
		}
	}
	return filepath.Join(base, "orrery", "realnode", realName(kind), "kubeconfig"), nil
}
