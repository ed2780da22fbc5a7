package inside

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// supervise is process 1: it starts the node's program and ends with it, which ends every other process here.
func supervise(p Plan) error {
	for fd := door; fd <= told; fd++ {
		syscall.CloseOnExec(fd)
	}
	boot, err := os.StartProcess("/proc/self/exe", []string{"realnode", third, p.Dir}, &os.ProcAttr{
		Files: []*os.File{nil, os.Stdout, os.Stderr, os.NewFile(door, "door"), nil, os.NewFile(told, "told")},
	})
	if err != nil {
		return fmt.Errorf("start the node's program: %w", err)
	}
	_ = syscall.Close(told) // the other side must see its end when that program ends
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		case pid == boot.Pid:
			return fmt.Errorf("the node's program has ended: %v", status)
		}
	}
}

// Reap buries orphans until a signal to end comes.
func Reap(end <-chan os.Signal) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return
		case <-died:
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}
}
