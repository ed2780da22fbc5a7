package cluster

import (
	"context"
	"fmt"
	"io"

	"orrery/hack/localcluster/internal/binaries"
)

// Suite holds the paths of the programs that run the Kubernetes project's
// end-to-end tests.
type Suite struct {
	// E2E holds the specs, Ginkgo runs them in parallel, and some call Kubectl.
	E2E, Ginkgo, Kubectl string
	// Version is the release all of them are from.
	Version string
}

// FindSuite returns the programs of the end-to-end tests, and builds those that
// are missing, which takes many minutes. log receives progress lines and may be nil.
func FindSuite(ctx context.Context, log io.Writer) (Suite, error) {
	programs, err := binaries.Ensure(ctx, binaries.Request{
		Names: append(binaries.Suite(), binaries.Kubectl), Log: log,
	})
	if err != nil {
		return Suite{}, fmt.Errorf("find the end-to-end tests: %w", err)
	}
	return Suite{
		E2E: programs[binaries.E2E], Ginkgo: programs[binaries.Ginkgo], Kubectl: programs[binaries.Kubectl],
		Version: binaries.Version,
	}, nil
}
