package cluster

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// launcher starts processes from one operating system thread that lives as
// long as the cluster. Linux sends the parent death signal when the thread
// that started the child ends, not when the process does; a child started from
// any goroutine could be killed while everything is well.
type launcher struct {
	work chan func()
	quit chan struct{}
	once sync.Once
}

func newLauncher() *launcher {
	l := &launcher{work: make(chan func()), quit: make(chan struct{})}
	go l.run()
	return l
}

func (l *launcher) run() {
	// Not unlocked: the thread ends with this goroutine, and with it every
	// child that was forgotten.
	runtime.LockOSThread()
	for {
		select {
		case f := <-l.work:
			f()
		case <-l.quit:
			return
		}
	}
}

// start starts cmd on the launcher's thread.
func (l *launcher) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	select {
	case l.work <- func() { result <- cmd.Start() }:
		return <-result
	case <-l.quit:
		return errors.New("the cluster is stopped")
	}
}

// close ends the thread; children that still run are killed with it.
func (l *launcher) close() {
	l.once.Do(func() { close(l.quit) })
}
