package tainteviction

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/kit"
)

// tolerated returns how long a pod may stay on a node with these taints; leaves is false if it may stay for ever.
func tolerated(pod *corev1.Pod, taints []corev1.Taint, compare bool) (d time.Duration, leaves bool) {
	if len(taints) == 0 {
		return 0, false
	}
	var shortest *int64
	for i := range taints {
		t := tolerationOf(pod, &taints[i], compare)
		if t == nil {
			return 0, true
		}
		if s := t.TolerationSeconds; s != nil && (shortest == nil || *s < *shortest) {
			shortest = s
		}
	}
	if shortest == nil || *shortest > kit.MaxSeconds {
		return 0, false
	}
	return time.Duration(max(0, *shortest)) * time.Second, true
}

// tolerationOf returns the first toleration of a pod that matches a taint, or nil.
func tolerationOf(pod *corev1.Pod, taint *corev1.Taint, compare bool) *corev1.Toleration {
	for i := range pod.Spec.Tolerations {
		if t := &pod.Spec.Tolerations[i]; t.ToleratesTaint(klog.Background(), taint, compare) {
			return t
		}
	}
	return nil
}

// pendingSet holds the evictions that are not due yet.
type pendingSet struct {
	mu    sync.RWMutex // guards byPod
	byPod map[kit.Key]deletion
}

type deletion struct {
	uid  types.UID
	at   time.Time
	told bool // the event about it has been published
}

func newPendingSet() *pendingSet { return &pendingSet{byPod: map[kit.Key]deletion{}} }

func (p *pendingSet) has(key kit.Key) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.byPod[key]
	return ok
}

// any reports whether there is a pending deletion.
func (p *pendingSet) any() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.byPod) > 0
}

// get returns the pending deletion of the pod with that UID.
func (p *pendingSet) get(key kit.Key, uid types.UID) (deletion, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	d, ok := p.byPod[key]
	return d, ok && d.uid == uid
}

func (p *pendingSet) set(key kit.Key, d deletion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byPod[key] = d
}

// drop forgets a pending deletion and reports whether there was one.
func (p *pendingSet) drop(key kit.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.byPod[key]
	delete(p.byPod, key)
	return ok
}
