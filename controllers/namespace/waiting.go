package namespace

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
)

// waitingSet holds the namespaces that wait for their pods to go, and when the next pass over each is due even if none
// goes. Only the pods of these namespaces cause reconciles.
type waitingSet struct {
	mu  sync.RWMutex // guards due
	due map[string]time.Time
}

func (w *waitingSet) wait(name string, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due == nil {
		w.due = map[string]time.Time{}
	}
	w.due[name] = due
}

func (w *waitingSet) done(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.due, name)
}

// dueAt returns when the next pass over a namespace is due; ok is false if it does not wait for pods.
func (w *waitingSet) dueAt(name string) (at time.Time, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	at, ok = w.due[name]
	return at, ok
}

func (w *waitingSet) namespaceOf(pod *corev1.Pod) []kit.Key {
	if _, ok := w.dueAt(pod.Namespace); !ok {
		return nil
	}
	return []kit.Key{{Name: pod.Namespace}}
}
