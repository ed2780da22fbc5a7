package kittest

import (
	"math/rand/v2"
	"sync"
	"testing"

	"orrery/kit"
)

// Mortal is a controller whose process is killed after some of its writes; each time the next process knows nothing of the
// one before.
type Mortal struct {
	t       testing.TB
	api     *API
	what    kit.Descriptor
	rand    *rand.Rand
	write   func(*Request)
	running *Running
	kills   int

	mu    sync.Mutex // guards the fields below
	left  int        // writes until the process is killed; negative: it lives
	loses bool       // the answer to the last of them
	dead  bool
}

// Mortal makes a controller that does not run yet. The function is called before each write that the server carries out.
func (a *API) Mortal(t testing.TB, what kit.Descriptor, random *rand.Rand, write func(*Request)) *Mortal {
	m := &Mortal{t: t, api: a, what: what, rand: random, write: write}
	a.React(m.react)
	return m
}

// Start starts a process that is killed after a number of writes, the answer to the last of which may be lost. It is not
// killed if the number is negative.
func (m *Mortal) Start(writes int) {
	m.t.Helper()
	m.mu.Lock()
	m.left, m.loses, m.dead = writes, m.rand.IntN(2) == 0, false
	m.mu.Unlock()
	m.running = m.api.Run(m.t, m.what)
}

// Restart kills the process, unless that has happened, and starts the next one.
func (m *Mortal) Restart(writes int) {
	m.t.Helper()
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
	m.running.Stop()
	m.api.ForgetCache()
	m.kills++
	m.Start(writes)
}

// Killed reports whether the process has been killed: its calls reach nobody any more.
func (m *Mortal) Killed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// Kills returns how many processes have been killed and followed by another one.
func (m *Mortal) Kills() int { return m.kills }

func (m *Mortal) react(q *Request) *Reaction {
	if q.User != m.what.Name || q.reads() {
		return nil
	}
	reaches, answered := m.spend()
	if !reaches {
		return &Reaction{Err: errGone}
	}
	m.write(q)
	if !answered {
		return &Reaction{Drop: true}
	}
	return nil
}

// spend takes one of the writes that are left, and reports whether it reaches the server and its answer the process.
func (m *Mortal) spend() (reaches, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.dead || m.left == 0:
		m.dead = true
		return false, false
	case m.left < 0:
		return true, true
	}
	m.left--
	return true, m.left > 0 || !m.loses
}
