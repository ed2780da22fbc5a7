package history

import (
	"bytes"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Wanted is the template that an owner has now, as revisions are compared with it. It is used by one pass at a time.
type Wanted struct {
	owner    metav1.Object
	template *corev1.PodTemplateSpec
	encode   func(*corev1.PodTemplateSpec) ([]byte, error)
	data     []byte
}

// Want returns what an owner's revisions are compared with. The owner is the object as the cache has it, with the
// template in it.
func Want(owner metav1.Object, template *corev1.PodTemplateSpec) *Wanted {
	return &Wanted{owner: owner, template: template, encode: Encode}
}

// WantWhole is Want for owners in the data of whose revisions whole numbers keep all their digits, as DaemonSets.
func WantWhole(owner metav1.Object, template *corev1.PodTemplateSpec) *Wanted {
	return &Wanted{owner: owner, template: template, encode: encodeWhole}
}

// Data returns the data of a revision of the template. It is worked out when it is asked for first.
func (w *Wanted) Data() ([]byte, error) {
	if w.data == nil {
		data, err := w.encode(w.template)
		if err != nil {
			return nil, err
		}
		w.data = data
	}
	return w.data, nil
}

// remembered bounds the answers that a Comparer keeps, times two. An answer weighs about 150 bytes.
const remembered = 5000

// question stands for a comparison. The generation counts the changes of the owner's spec, and a revision's version
// those of the revision, so the answer to a question never changes.
type question struct {
	owner      types.UID
	generation int64
	revision   types.UID
	version    string
}

// Comparer compares owners' templates with revisions and remembers the answers, so that an owner whose template has not
// changed costs nothing but the look-up. It serves many passes at once. The zero value is ready.
type Comparer struct {
	mu          sync.Mutex        // guards the fields below
	young, aged map[question]bool // answers of late and those before them, which are forgotten as a whole
}

// Same reports whether a revision restores the wanted template. It does if its data is the same, or if applying it and
// filling in today's defaults leads to the same data. A revision that cannot be applied restores nothing. An error is
// about the wanted template.
func (c *Comparer) Same(w *Wanted, revision *appsv1.ControllerRevision) (bool, error) {
	q := question{w.owner.GetUID(), w.owner.GetGeneration(), revision.UID, revision.ResourceVersion}
	if same, known := c.recall(q); known {
		return same, nil
	}
	data, err := w.Data()
	if err != nil {
		return false, err
	}
	same := bytes.Equal(revision.Data.Raw, data) || restores(revision, w.template)
	c.remember(q, same)
	return same, nil
}

// Find returns the revision that restores the wanted template; nil if there is none. The revisions are sorted. The last
// one wins if it means the same, so that nothing moves; then one with the very same data, which every implementation
// finds; then any of the same meaning; the later before the earlier.
func (c *Comparer) Find(w *Wanted, sorted []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if len(sorted) == 0 {
		return nil, nil
	}
	last := sorted[len(sorted)-1]
	same, err := c.Same(w, last)
	switch {
	case err != nil:
		return nil, err
	case same:
		return last, nil
	}
	data, err := w.Data()
	if err != nil {
		return nil, err
	}
	var alike *appsv1.ControllerRevision
	for i := len(sorted) - 2; i >= 0; i-- {
		if bytes.Equal(sorted[i].Data.Raw, data) {
			return sorted[i], nil
		}
		if alike != nil {
			continue
		}
		same, err := c.Same(w, sorted[i])
		if err != nil {
			return nil, err
		}
		if same {
			alike = sorted[i]
		}
	}
	return alike, nil
}

// restores reports whether a revision leads back to a template, once both have all of today's defaults. One that leaves
// any part of the template as it is stands for no template.
func restores(revision *appsv1.ControllerRevision, template *corev1.PodTemplateSpec) bool {
	if !replacesAll(revision.Data.Raw) {
		return false
	}
	restored, err := Template(revision, template)
	if err != nil {
		return false
	}
	present := template.DeepCopy()
	complete(present)
	complete(restored)
	want, err := Encode(present)
	if err != nil {
		return false
	}
	got, err := Encode(restored)
	return err == nil && bytes.Equal(got, want)
}

func (c *Comparer) recall(q question) (same, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if same, known = c.young[q]; known {
		return same, true
	}
	if same, known = c.aged[q]; known {
		c.keep(q, same)
	}
	return same, known
}

func (c *Comparer) remember(q question, same bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(q, same)
}

func (c *Comparer) keep(q question, same bool) {
	if c.young == nil || len(c.young) >= remembered {
		c.young, c.aged = map[question]bool{}, c.young
	}
	c.young[q] = same
}
