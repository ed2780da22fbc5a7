package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"orrery/hack/localcluster/cluster"
)

// spec is one test of the suite.
type spec struct {
	name   string
	labels []string
}

func (s spec) has(label string) bool { return slices.Contains(s.labels, label) }

// ginkgoReport is what these tools read of Ginkgo's JSON report.
type ginkgoReport []struct {
	SpecReports []ginkgoSpec
}

type ginkgoSpec struct {
	ContainerHierarchyTexts  []string
	ContainerHierarchyLabels [][]string
	LeafNodeType             string
	LeafNodeLabels           []string
	LeafNodeText             string
	State                    string
	RunTime                  int64 // nanoseconds
	Failure                  struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
	}
}

func (g ginkgoSpec) name() string {
	return strings.Join(append(slices.Clone(g.ContainerHierarchyTexts), g.LeafNodeText), " ")
}

func (g ginkgoSpec) labels() []string {
	labels := slices.Concat(append(slices.Clone(g.ContainerHierarchyLabels), g.LeafNodeLabels)...)
	slices.Sort(labels)
	return slices.Compact(labels)
}

func readReport(path string) ([]ginkgoSpec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read Ginkgo's report: %w", err)
	}
	var reports ginkgoReport
	if err := json.Unmarshal(text, &reports); err != nil {
		return nil, fmt.Errorf("read Ginkgo's report %s: %w", path, err)
	}
	var specs []ginkgoSpec
	for _, r := range reports {
		specs = append(specs, r.SpecReports...)
	}
	return specs, nil
}

// listSpecs asks the suite for all its specs, without running any.
func listSpecs(ctx context.Context, suite cluster.Suite, dir string) ([]spec, error) {
	path := filepath.Join(dir, "list.json")
	defer os.Remove(path)
	cmd := exec.CommandContext(ctx, suite.E2E, "--ginkgo.dry-run", "--ginkgo.no-color", "--ginkgo.succinct",
		"--ginkgo.json-report="+path, "--kubeconfig=/dev/null")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("list specs: %w\n%s", err, lastLines(string(out), 20))
	}
	found, err := readReport(path)
	if err != nil {
		return nil, err
	}
	var specs []spec
	for _, g := range found {
		if g.LeafNodeType == "It" {
			specs = append(specs, spec{name: g.name(), labels: g.labels()})
		}
	}
	return specs, nil
}

// foreign are labels of specs that need what no local cluster has: a feature that is off, or a cloud.
var foreign = regexp.MustCompile(`^(Alpha|Feature:OffByDefault|Provider:.*)$`)

// slow are labels of specs that the fast subset leaves out.
var slow = regexp.MustCompile(`^(Slow|Serial|Disruptive)$`)

// choose returns the specs that are to run, sorted by name.
func choose(all []spec, listed map[string]bool, s settings) []spec {
	var chosen []spec
	for _, one := range all {
		group, known := subjectOf(one.name)
		if known = known && group.name != services.name; s.real {
			known = forReal(one)
		}
		switch {
		case !known,
			slices.ContainsFunc(one.labels, foreign.MatchString),
			strings.Contains(one.name, "[Provider:"),
			!s.all && !listed[one.name],
			s.fast && slices.ContainsFunc(one.labels, slow.MatchString),
			!s.focus.MatchString(one.name):
			continue
		}
		chosen = append(chosen, one)
	}
	slices.SortFunc(chosen, func(a, b spec) int { return strings.Compare(a.name, b.name) })
	return chosen
}

const listHeader = `# The specs that pass with upstream's kube-controller-manager, sorted: on fake nodes, or, in passing-real.txt, on a real one.
# Written by "make conformance-baseline" (NODE=real); do not edit.
`

// readList reads the names of the specs that are known to pass.
func readList(path string) (map[string]bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of passing specs: %w", err)
	}
	defer file.Close()
	listed := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			listed[line] = true
		}
	}
	return listed, lines.Err()
}

// writeList replaces the list with what has passed.
func writeList(path string, r *result) error {
	var names []string
	for _, o := range r.Specs {
		if o.State == passed {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	text := listHeader + strings.Join(names, "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the list of passing specs: %w", err)
	}
	fmt.Printf("%d specs pass with upstream; %s is written\n", len(names), filepath.Base(path))
	return nil
}
