package history

import (
	"bytes"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Wanted is the current template of an owner, in the form in which revisions are compared with it. It is not safe for
// concurrent use.
type Wanted struct {
	owner    metav1.Object
	template *corev1.PodTemplateSpec
	encode   func(*corev1.PodTemplateSpec) ([]byte, error)
	data     []byte
}

// Want returns what an owner's revisions are compared with. The owner is the cached object that the template belongs to.
func Want(owner metav1.Object, template *corev1.PodTemplateSpec) *Wanted {
	return &Wanted{owner: owner, template: template, encode: Encode}
}

// WantWhole is Want for kinds of owners, as DaemonSets, whose revision data keeps all digits of integers.
func WantWhole(owner metav1.Object, template *corev1.PodTemplateSpec) *Wanted {
	return &Wanted{owner: owner, template: template, encode: encodeWhole}
}

// Data returns the data of a revision of the template. It is computed by the first call.
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

// maxRecent is half the number of results that a Comparer keeps. A result takes about 150 bytes.
const maxRecent = 5000

// comparison identifies a comparison. The owner's generation changes with its spec, and the revision's version with the
// revision, so the result of a comparison never changes.
type comparison struct {
	owner      types.UID
	generation int64
	revision   types.UID
	version    string
}

// Comparer compares templates of owners with revisions and caches the results, so that an owner whose template has not
// changed costs only a look-up. It is safe for concurrent use. The zero value is ready to use.
type Comparer struct {
	mu            sync.Mutex // guards the fields below
	recent, older map[comparison]bool
}

// Same reports whether a revision restores the wanted template. It does if its data is the same, or if applying it and
// setting the current API defaults results in the same data. A revision that cannot be applied restores nothing. Only a
// problem of the wanted template is an error.
func (c *Comparer) Same(w *Wanted, revision *appsv1.ControllerRevision) (bool, error) {
	q := comparison{w.owner.GetUID(), w.owner.GetGeneration(), revision.UID, revision.ResourceVersion}
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

// Find returns the revision that restores the wanted template, or nil if there is none. The revisions must be sorted. If
// there are several, Find prefers the last one, so that nothing is renumbered; then one with identical data, which is what
// other implementations find; then any; and always later ones to earlier ones.
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
	var equivalent *appsv1.ControllerRevision
	for i := len(sorted) - 2; i >= 0; i-- {
		if bytes.Equal(sorted[i].Data.Raw, data) {
			return sorted[i], nil
		}
		if equivalent != nil {
			continue
		}
		same, err := c.Same(w, sorted[i])
		if err != nil {
			return nil, err
		}
		if same {
			equivalent = sorted[i]
		}
	}
	return equivalent, nil
}

// restores reports whether applying a revision results in the given template, after the current API defaults are set in
// both. A revision that does not replace the template as a whole restores none.
func restores(revision *appsv1.ControllerRevision, template *corev1.PodTemplateSpec) bool {
	if !replacesAll(revision.Data.Raw) {
		return false
	}
	restored, err := Template(revision, template)
	if err != nil {
		return false
	}
	current := template.DeepCopy()
	setDefaults(current)
	setDefaults(restored)
	want, err := Encode(current)
	if err != nil {
		return false
	}
	got, err := Encode(restored)
	return err == nil && bytes.Equal(got, want)
}

func (c *Comparer) recall(q comparison) (same, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if same, known = c.recent[q]; known {
		return same, true
	}
	if same, known = c.older[q]; known {
		c.keep(q, same)
	}
	return same, known
}

func (c *Comparer) remember(q comparison, same bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(q, same)
}

func (c *Comparer) keep(q comparison, same bool) {
	if c.recent == nil || len(c.recent) >= maxRecent {
		c.recent, c.older = map[comparison]bool{}, c.recent
	}
	c.recent[q] = same
}
