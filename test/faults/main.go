package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"orrery/hack/localcluster/cluster"
)

// settings are the command line.
type settings struct {
	duration time.Duration
	seed     uint64
	kind     cluster.ManagerKind
	orrery   string
	keep     string
	quiet    bool
	only     string
}

func main() {
	var s settings
	kind := flag.String("manager", string(cluster.Orrery), "controller manager: orrery, or upstream to see what it makes of the faults")
	flag.DurationVar(&s.duration, "duration", 10*time.Minute, "how long faults happen")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "seed of the faults and of the changes")
	flag.StringVar(&s.orrery, "orrery", "../../bin/orrery", "path of the daemon")
	flag.StringVar(&s.keep, "keep", "", "folder for the logs; empty keeps none")
	flag.BoolVar(&s.quiet, "calm", false, "no faults: only the changes and the rules")
	flag.StringVar(&s.only, "only", "", "controllers whose workloads are made, with commas between them; empty makes all")
	flag.Parse()
	s.kind = cluster.ManagerKind(*kind)
	klog.LogToStderr(false) // the run's own clients lose connections on purpose
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	broken, err := run(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
	if broken > 0 {
		os.Exit(1)
	}
}

// say prints one line with the time.
func say(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// keepLogs copies the logs of a cluster.
func keepLogs(c *cluster.Cluster, to string) error {
	if to == "" {
		return nil
	}
	to = filepath.Join(to, "logs")
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("keep logs: %w", err)
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join(c.Dir(), "logs"))); err != nil {
		return fmt.Errorf("keep logs: %w", err)
	}
	return nil
}
