package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// inside returns a command that runs in the node as its administrator, with the programs of Kubernetes at hand.
func (n *node) inside(ctx context.Context, command ...string) (*exec.Cmd, error) {
	s, err := n.running()
	if err != nil {
		return nil, err
	}
	kubectl, err := n.program("kubectl")
	if err != nil {
		return nil, err
	}
	args := []string{"--target", strconv.Itoa(s.PID), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd=/", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(args, command...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=/etc/kubernetes/admin.conf", "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	return cmd, nil
}

// passed is the exit code of a command that was run for the caller, who has seen what it printed.
type passed int

func (p passed) Error() string { return fmt.Sprintf("exit code %d", int(p)) }

func pass(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return passed(exit.ExitCode())
	}
	return err
}

// exec runs a command in the node.
func (n *node) exec(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return errors.New("exec needs a command")
	}
	cmd, err := n.inside(ctx, args...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return pass(cmd.Run())
}

// kubectl runs kubectl on this machine.
func (n *node) kubectl(ctx context.Context, args []string) error {
	if _, err := n.running(); err != nil {
		return err
	}
	cmd, err := n.kubectlCommand(ctx, args...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return pass(cmd.Run())
}

func (n *node) kubectlCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := n.program("kubectl")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.kubeconfig())
	return cmd, nil
}

// program returns the path of one of the programs that the node consists of.
func (n *node) program(name string) (string, error) {
	var plan struct{ Programs map[string]string }
	text, err := os.ReadFile(n.path("plan.json"))
	if err == nil {
		err = json.Unmarshal(text, &plan)
	}
	if err != nil {
		return "", fmt.Errorf("read the node's plan: %w", err)
	}
	return plan.Programs[name], nil
}
