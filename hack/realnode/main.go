package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"orrery/hack/realnode/inside"
)

const usage = `usage: realnode [-name NAME] COMMAND

  up        start a node and wait until it is ready; -orrery starts it with Orrery as its manager
  down      end it and remove all of it, also after it was killed
  status    tell whether it runs, and what its manager is
  switch    orrery|upstream: put one manager in the other's place, in the static pod's manifest
  load      NAME:TAG BINARY [ENTRY,...]: pack a static binary as an image and import it
  kubectl   run kubectl against it
  exec      -- COMMAND: run a command inside it
  check     tell whether this machine can run one
`

func main() {
	if filepath.Base(os.Args[0]) == "pause" {
		pause()
		return
	}
	if len(os.Args) > 1 && inside.Stage(os.Args[1]) {
		if err := inside.Run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "realnode:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var exit passed
	switch {
	case errors.As(err, &exit):
		os.Exit(int(exit))
	case err != nil:
		fmt.Fprintln(os.Stderr, "realnode:", err)
		os.Exit(1)
	}
}

// pause is the program of the image of that name: it holds a pod's namespaces, and buries the orphans of pods that share
// their processes.
func pause() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	inside.Reap(end)
}

func run(ctx context.Context, args []string) error {
	global := flag.NewFlagSet("realnode", flag.ContinueOnError)
	name := global.String("name", "default", "name of the node; nodes of different names run side by side")
	global.Usage = func() { fmt.Fprint(global.Output(), usage) }
	if err := global.Parse(args); err != nil {
		return err
	}
	command, rest := global.Arg(0), global.Args()
	if len(rest) > 0 {
		rest = rest[1:]
	}
	n, err := find(*name)
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("realnode "+command, flag.ContinueOnError)
	image := flags.String("image-tool", beside("image"), "the program that packs images")
	orrery := flags.String("orrery-bin", beside("orrery"), "the binary of Orrery")
	builder := flags.String("localcluster", beside("localcluster"), "the program that builds those of Kubernetes")
	suite := flags.Bool("suite", false, "with images and volumes for the specs of Kubernetes' end-to-end tests; needs curl, wget and OpenBSD's netcat")
	repo := flags.String("repo", beside(".."), "this repository, for manifests and documentation")
	timeout := flags.Duration("timeout", 4*time.Minute, "limit for the start or the switch, without building")
	keep := flags.Bool("keep", false, "leave a node that did not get ready, to look at it; \"down\" removes it")
	switch command {
	case "kubectl":
		return n.kubectl(ctx, rest)
	case "exec":
		return n.exec(ctx, rest)
	}
	if err := flags.Parse(rest); err != nil {
		return err
	}
	n.imageTool, n.orrery, n.localcluster, n.repo, n.timeout = *image, *orrery, *builder, *repo, *timeout
	n.keep, n.forSuite = *keep, *suite
	return n.command(ctx, command, flags.Args())
}

func (n *node) command(ctx context.Context, command string, args []string) error {
	want := map[string]int{"up": 0, "down": 0, "status": 0, "check": 0, "switch": 1}
	if number, ok := want[command]; ok && len(args) != number {
		return fmt.Errorf("%s takes %d arguments and not %q", command, number, args)
	}
	switch command {
	case "up":
		return n.up(ctx)
	case "down":
		return n.down(ctx)
	case "status":
		return n.status(ctx)
	case "check":
		return requirements()
	case "switch":
		return n.switchTo(ctx, args[0])
	case "load":
		return n.load(ctx, args)
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("unknown command %q", command)
}

// beside returns the path of another program of this repository, which is built into the same folder.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}
