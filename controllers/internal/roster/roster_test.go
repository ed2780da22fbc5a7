package roster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery/kit/client"
)

type tags = map[string]string

// fake is the cache: what is in it is what Select has to return.
type fake struct {
	mu    sync.Mutex
	pods  map[client.Key]*corev1.Pod
	svcs  map[client.Key]Selection
	lists int
	gets  int
}

func newFake() *fake {
	return &fake{pods: map[client.Key]*corev1.Pod{}, svcs: map[client.Key]Selection{}}
}

func (f *fake) roster() *Roster { return New(Cache{Pod: f.pod, Pods: f.list, Selections: f.services}) }

func (f *fake) pod(k client.Key) (*corev1.Pod, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets++
	p, ok := f.pods[k]
	return p, ok
}

func (f *fake) list(ns string) (out []*corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	for k, p := range f.pods {
		if k.Namespace == ns {
			out = append(out, p)
		}
	}
	return out
}

func (f *fake) services(ns string) (out []Selection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, s := range f.svcs {
		if k.Namespace == ns {
			out = append(out, s)
		}
	}
	return out
}

func (f *fake) put(p *corev1.Pod) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[client.KeyOf(p)] = p
	return p
}

func (f *fake) serve(name string, selector tags) Selection {
	s := Selection{Key: client.Key{Namespace: "ns", Name: name}, Labels: selector}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.svcs[s.Key] = s
	return s
}

func pod(name string, l tags) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: l}}
}

func podNames(pods []*corev1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

func keyNames(keys []client.Key) []string {
	out := []string{}
	for _, k := range keys {
		out = append(out, k.Name)
	}
	slices.Sort(out)
	return out
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestWholeSelectorsMatch(t *testing.T) {
	f := newFake()
	f.put(pod("p", tags{"app": "web", "tier": "front", "x": "1"}))
	r := f.roster()
	for name, c := range map[string]struct {
		selector tags
		want     bool
	}{
		"one":          {tags{"app": "web"}, true},
		"both":         {tags{"app": "web", "tier": "front"}, true},
		"one differs":  {tags{"app": "web", "tier": "back"}, false},
		"one is not":   {tags{"app": "web", "zone": ""}, false},
		"value differ": {tags{"app": "db"}, false},
	} {
		got := len(r.Select(f.serve(name, c.selector))) == 1
		if got != c.want {
			t.Errorf("%s: selected %t, want %t", name, got, c.want)
		}
	}
	expect(t, "services of the pod", keyNames(r.Matching("ns", f.pods[client.Key{Namespace: "ns", Name: "p"}].Labels)), "both", "one")
	expect(t, "services elsewhere", keyNames(r.Matching("other", tags{"app": "web"})))
}

func TestSelectionsWithoutLabelsMatchByTheirRest(t *testing.T) {
	f := newFake()
	f.put(pod("web", tags{"app": "web"}))
	f.put(pod("db", tags{"app": "db"}))
	f.put(pod("bare", nil))
	f.put(pod("canary", tags{"app": "web", "track": "canary"}))
	r := f.roster()
	serve := func(name string, l tags, rest string) Selection {
		s := Selection{Key: client.Key{Namespace: "ns", Name: name}, Labels: l}
		if rest != "" {
			s.Rest = must(labels.Parse(rest))
		}
		f.svcs[s.Key] = s
		return s
	}
	for _, c := range []struct {
		sel  Selection
		want []string
	}{
		{serve("all", nil, ""), []string{"bare", "canary", "db", "web"}},
		{serve("in", nil, "app in (web,db)"), []string{"canary", "db", "web"}},
		{serve("both", tags{"app": "web"}, "!track"), []string{"web"}},
		{serve("none", nil, "app,!app"), []string{}},
	} {
		expect(t, c.sel.Key.Name, podNames(r.Select(c.sel)), c.want...)
	}
	expect(t, "objects of a pod", keyNames(r.Matching("ns", tags{"app": "web"})), "all", "both", "in")
	expect(t, "objects of a pod without labels", keyNames(r.Matching("ns", nil)), "all")
	late := f.put(pod("late", tags{"app": "db"}))
	expect(t, "objects of a new pod", keyNames(r.Enter(late)), "all", "in")
	expect(t, "another rest", podNames(r.Select(serve("both", tags{"app": "web"}, "track"))), "canary")
	expect(t, "no rest", podNames(r.Select(serve("both", tags{"app": "web"}, ""))), "canary", "web")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestNewSelectorFindsPodsThatWereThere(t *testing.T) {
	f := newFake()
	f.put(pod("a", tags{"app": "web"}))
	f.put(pod("b", tags{"app": "db"}))
	r := f.roster()
	expect(t, "before", podNames(r.Select(f.serve("s", tags{"app": "web"}))), "a")
	expect(t, "after", podNames(r.Select(f.serve("s", tags{"app": "db"}))), "b")
	expect(t, "services of the old selector", keyNames(r.Matching("ns", tags{"app": "web"})))
	r.Forget(client.Key{Namespace: "ns", Name: "s"})
	if len(r.spaces) != 0 {
		t.Errorf("a namespace without Services is kept: %v", r.spaces)
	}
}

func TestAPodThatComesBackBeforeItsDeleteIsHeardOf(t *testing.T) {
	f := newFake()
	old := f.put(pod("a", tags{"app": "web"}))
	r := f.roster()
	s := f.serve("s", tags{"app": "web"})
	r.Select(s)
	f.put(pod("a", tags{"app": "web"})) // deleted and made again in the cache already
	expect(t, "services of the deleted pod", keyNames(r.Leave(old)), "s")
	expect(t, "pods", podNames(r.Select(s)), "a")
}

func TestNamesOfPodsThatAreGoneAreDropped(t *testing.T) {
	f := newFake()
	r := f.roster()
	s := f.serve("s", tags{"app": "web"})
	r.Select(s)
	for i := range 100 {
		p := f.put(pod(fmt.Sprint("p", i), tags{"app": "web"}))
		r.Enter(p)
		delete(f.pods, client.KeyOf(p))
		r.Leave(p)
	}
	if n := len(r.find(s).names); n != 0 {
		t.Errorf("%d names are kept of pods that are gone", n)
	}
}

// TestCostOfOnePodChange has 5,000 Services and 3,000 pods in one namespace: neither a restart nor a change of one pod
// may compare all of the ones with all of the others.
func TestCostOfOnePodChange(t *testing.T) {
	const services, pods = 5000, 3000
	f := newFake()
	for i := range services {
		// Every selector has a pair that all pods have, and one that few have.
		f.serve(fmt.Sprint("s", i), tags{"a-team": "all", "app": fmt.Sprint(i)})
	}
	for i := range pods {
		f.put(pod(fmt.Sprint("p", i), tags{"a-team": "all", "app": fmt.Sprint(i), "hash": "x"}))
	}
	r := f.roster()
	for _, s := range f.svcs {
		r.Select(s)
	}
	if f.lists != 1 {
		t.Errorf("the pods were listed %d times at the start, want once", f.lists)
	}
	if f.gets > pods {
		t.Errorf("%d pods were looked up for Services that select %d", f.gets, pods)
	}
	worst := 0
	for _, filed := range r.spaces["ns"].filed {
		worst = max(worst, len(filed))
	}
	if worst > 2 {
		t.Errorf("one label pair leads to %d Services", worst)
	}
	expect(t, "services of a pod", keyNames(r.Matching("ns", tags{"a-team": "all", "app": "7", "hash": "x"})), "s7")
}

// TestAnyOrderOfEvents changes pods and Services at random and tells the roster late and in order, as an informer
// does, while it is asked. Once it has heard everything, it must select what the cache holds.
func TestAnyOrderOfEvents(t *testing.T) {
	rests := []labels.Selector{must(labels.Parse("a")), must(labels.Parse("!b")), must(labels.Parse("c in (0,1)"))}
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		f := newFake()
		r := f.roster()
		anyLabels := func() tags {
			l := tags{}
			for _, k := range []string{"a", "b", "c"} {
				if rnd.IntN(3) > 0 {
					l[k] = fmt.Sprint(rnd.IntN(3))
				}
			}
			return l
		}
		var late []func()
		hear := func(n int) {
			for range min(n, len(late)) {
				late[0]()
				late = late[1:]
			}
		}
		for range 400 {
			key := client.Key{Namespace: "ns", Name: fmt.Sprint("p", rnd.IntN(20))}
			old := f.pods[key]
			switch rnd.IntN(6) {
			case 0, 1, 2:
				now := f.put(pod(key.Name, anyLabels()))
				late = append(late, func() { r.Enter(now) })
			case 3:
				if old != nil {
					delete(f.pods, key)
					late = append(late, func() { r.Leave(old) })
				}
			case 4:
				s := f.serve(fmt.Sprint("s", rnd.IntN(6)), anyLabels())
				if rnd.IntN(2) == 0 {
					s.Rest = rests[rnd.IntN(len(rests))]
					f.svcs[s.Key] = s
				}
				r.Select(s)
			case 5:
				svc := client.Key{Namespace: "ns", Name: fmt.Sprint("s", rnd.IntN(6))}
				s, known := f.svcs[svc]
				if known && rnd.IntN(4) == 0 {
					delete(f.svcs, svc)
					r.Forget(svc)
				} else if known {
					r.Select(s)
				}
			}
			hear(rnd.IntN(3))
		}
		hear(len(late))
		for _, s := range f.svcs {
			var want []string
			for _, p := range f.pods {
				if newEntry(s).matches(p.Labels) {
					want = append(want, p.Name)
				}
			}
			slices.Sort(want)
			if got := podNames(r.Select(s)); !slices.Equal(got, append([]string{}, want...)) {
				t.Fatalf("seed %d: %v selects %v, want %v", seed, s.Labels, got, want)
			}
		}
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	f := newFake()
	r := f.roster()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				s := f.serve(fmt.Sprint("s", j%5), tags{"app": fmt.Sprint(j % 7)})
				r.Select(s)
				p := f.put(pod(fmt.Sprint("p", i, j), tags{"app": fmt.Sprint(j % 7)}))
				r.Enter(p)
				r.Matching("ns", p.Labels)
				r.Leave(p)
				if j%20 == 0 {
					r.Forget(s.Key)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkMatchingAmongFiveThousandServices(b *testing.B) {
	f := newFake()
	for i := range 5000 {
		f.serve(fmt.Sprint("s", i), tags{"team": "all", "app": fmt.Sprint(i)})
	}
	r := f.roster()
	r.Select(f.serve("s0", tags{"team": "all", "app": "0"}))
	l := tags{"team": "all", "app": "77", "pod-template-hash": "5d8f"}
	b.ReportAllocs()
	for b.Loop() {
		r.Matching("ns", l)
	}
}
