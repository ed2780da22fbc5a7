package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// settings are the command line.
type settings struct {
	orrery   string
	seed     uint64
	programs int
	parallel int
	only     []string
	index    int
	quiet    time.Duration
	patience time.Duration
	events   bool
	keep     string
	hurry    bool
	verbose  bool
	grace    time.Duration
	finished int
}

func main() {
	var s settings
	var only string
	flag.StringVar(&s.orrery, "orrery", "../../bin/orrery", "path of the daemon")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().Unix()), "seed of the programs")
	flag.IntVar(&s.programs, "programs", 60, "how many programs are drawn")
	flag.IntVar(&s.parallel, "parallel", 12, "how many programs run at once")
	flag.IntVar(&s.index, "index", -1, "run only the program of that number, of those that the seed draws")
	flag.StringVar(&only, "only", "", "generators to draw from, with commas between them; empty means all")
	flag.DurationVar(&s.quiet, "quiet", 2500*time.Millisecond, "how long both namespaces must stay equal after a step")
	flag.DurationVar(&s.patience, "patience", 45*time.Second, "how long they may take to become equal")
	flag.BoolVar(&s.events, "events", true, "compare events, too")
	flag.BoolVar(&s.hurry, "hurry", false, "let some steps follow each other at once: how far each manager got may then differ, and what comes of it")
	flag.StringVar(&s.keep, "keep", "", "folder for the logs; empty keeps none")
	flag.BoolVar(&s.verbose, "v", false, "print every step")
	flag.DurationVar(&s.grace, "node-grace", 2*time.Minute, "how long a node may be silent; 20s makes programs of nodes fast, and other nodes fail on a busy machine")
	flag.IntVar(&s.finished, "finished-pods", 0, "how many finished pods are kept; 0 means the managers' default")
	flag.Parse()
	if only != "" {
		s.only = strings.Split(only, ",")
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	differences, err := run(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "parity:", err)
		os.Exit(2)
	}
	if differences > 0 {
		os.Exit(1)
	}
}

// say prints one line with the time.
func say(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}
