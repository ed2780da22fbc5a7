package kit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// crashing makes this test binary the process that crashes.
const crashing = "KIT_TEST_CRASH"

func TestThePolicyToCrashEndsTheProcess(t *testing.T) {
	if os.Getenv(crashing) != "" {
		c := lonely(t, func(context.Context, Key) (Result, error) { panic("nil map") })
		c.cc.PanicPolicy = CrashOnPanic
		_ = Guard(func() error { // nothing around it can help
			c.step(t.Context(), Key{Namespace: "default", Name: "web"})
			return nil
		})
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestThePolicyToCrashEndsTheProcess$")
	cmd.Env = append(os.Environ(), crashing+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() <= 0 {
		t.Fatalf("ended with %v, want it to fail:\n%s", err, out)
	}
	for _, want := range []string{"ending the process", `object="default/web"`, "nil map", "TestThePolicyToCrashEndsTheProcess"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the log does not have %q:\n%.3000s", want, out)
		}
	}
}
