package scenarios

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

// orreryBin is the daemon under test.
var orreryBin string

// patience is how long a test waits for something that should happen at once. It only has to be long enough for a busy
// machine: no test passes because of a longer wait.
const patience = 2 * time.Minute

// long says that outages last as long as real ones do.
var long = os.Getenv("ORRERY_LONG") == "1"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// The tests' own clients lose connections on purpose.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	dir, err := os.MkdirTemp("", "orrery-scenarios-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	orreryBin = os.Getenv("ORRERY_BIN")
	if orreryBin == "" {
		orreryBin = filepath.Join(dir, "orrery")
		build := exec.Command("go", "build", "-o", orreryBin, "./cmd/orrery")
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the daemon: %v\n%s", err, out)
			return 1
		}
	}
	if orreryBin, err = filepath.Abs(orreryBin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
