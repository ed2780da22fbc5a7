package endpointslice

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/client"
	"orrery/kit/kittest"
)

func oneCPU() *resource.Quantity { return resource.NewQuantity(1, resource.DecimalSI) }

// scenario runs a test with the controller over an API that holds node n1 and the objects given.
func scenario(t *testing.T, objs []client.Object, f func(t *testing.T, api *kittest.API)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, append([]client.Object{node("n1", "z1")}, objs...)...)
		run(t, api)
		api.Settle()
		f(t, api)
	})
}

func TestSlicesFollowPods(t *testing.T) {
	scenario(t, []client.Object{service("web")}, func(t *testing.T, api *kittest.API) {
		expect(t, api, "web", "IPv4 empty")
		if got := verbs(api); got != "create 1" {
			t.Errorf("writes %q, want one create", got)
		}
		a, b := pod("web", "a", "", without), pod("web", "b", "10.1.0.2")
		api.Create(t, a)
		api.Settle()
		api.Expect(t) // a pod without an address is nobody's business
		a.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.1"}}
		setReady(a, corev1.ConditionFalse)
		api.Update(t, a)
		api.Create(t, b)
		api.Create(t, pod("other", "c", "10.1.0.3"))
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a; IPv4 10.1.0.2 b rs")
		setReady(a, corev1.ConditionTrue)
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a rs; IPv4 10.1.0.2 b rs")
		verbs(api)
		a.Annotations = map[string]string{"unrelated": "change"}
		api.Update(t, a)
		repair(api)
		api.Expect(t)
		api.Remove(t, a)
		api.Remove(t, b)
		api.Settle()
		expect(t, api, "web", "IPv4 empty")
		if n := len(slicesOf(t, api, "web")); n != 1 {
			t.Errorf("%d slices, want the one there was from the start", n)
		}
	})
}

func TestRelabelledPodsMove(t *testing.T) {
	a := pod("web", "a", "10.1.0.1")
	scenario(t, []client.Object{service("web"), service("api"), a}, func(t *testing.T, api *kittest.API) {
		a.Labels = map[string]string{"app": "api"}
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 empty")
		expect(t, api, "api", "IPv4 10.1.0.1 a rs")
		verbs(api)
		a.Labels["more"] = "labels"
		api.Update(t, a)
		repair(api)
		api.Expect(t)
	})
}

func TestSelectorChange(t *testing.T) {
	web := service("web")
	scenario(t, []client.Object{web, pod("web", "a", "10.1.0.1"), pod("api", "b", "10.1.0.2")}, func(t *testing.T, api *kittest.API) {
		web.Spec.Selector = map[string]string{"app": "api"}
		api.Update(t, web)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.2 b rs")
	})
}

// A pod that has ended is never listed, even with publishNotReadyAddresses.
func TestTerminalPodsAreNotListed(t *testing.T) {
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	a := pod("web", "a", "10.1.0.1")
	scenario(t, []client.Object{service("web", publish), a}, func(t *testing.T, api *kittest.API) {
		expect(t, api, "web", "IPv4 10.1.0.1 a rs")
		a.Status.Phase = corev1.PodFailed
		api.Update(t, a)
		b := pod("web", "b", "10.1.0.2")
		b.Status.Phase = corev1.PodSucceeded
		api.Create(t, b)
		api.Settle()
		expect(t, api, "web", "IPv4 empty")
	})
}

// A ready pod that is deleted keeps serving until it is removed.
func TestTerminatingPods(t *testing.T) {
	publish := func(s *corev1.Service) {
		s.Spec.PublishNotReadyAddresses, s.Spec.Selector = true, map[string]string{"app": "web"}
	}
	a := pod("web", "a", "10.1.0.1")
	scenario(t, []client.Object{service("web"), service("all", publish), a}, func(t *testing.T, api *kittest.API) {
		api.Delete(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a st")
		expect(t, api, "all", "IPv4 10.1.0.1 a rst")
		api.Get(t, a)
		setReady(a, corev1.ConditionFalse)
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a t")
		expect(t, api, "all", "IPv4 10.1.0.1 a rt")
		api.Remove(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 empty")
		expect(t, api, "all", "IPv4 empty")
	})
}

// A pod that at first has no address and then only an IPv6 address is listed in that family.
func TestDualStack(t *testing.T) {
	a := pod("web", "a", "", without)
	web := service("web", dual)
	scenario(t, []client.Object{web, a}, func(t *testing.T, api *kittest.API) {
		expect(t, api, "web", "IPv4 empty; IPv6 empty")
		a.Status.PodIPs = []corev1.PodIP{{IP: "fd00::1"}}
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 empty; IPv6 fd00::1 a rs")
		a.Status.PodIPs = append(a.Status.PodIPs, corev1.PodIP{IP: "10.1.0.1"})
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a rs; IPv6 fd00::1 a rs")
		web.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
		api.Update(t, web)
		api.Settle()
		expect(t, api, "web", "IPv6 fd00::1 a rs")
	})
}

// Slices stay as they are when the selector is removed, and are managed again when it is added again.
func TestServiceWithoutSelectorIsLeftAlone(t *testing.T) {
	web, a := service("web"), pod("web", "a", "10.1.0.1")
	scenario(t, []client.Object{web, a}, func(t *testing.T, api *kittest.API) {
		web.Spec.Selector = nil
		api.Update(t, web)
		api.Settle()
		verbs(api)
		api.Remove(t, a)
		api.Create(t, pod("web", "b", "10.1.0.2"))
		slice := slicesOf(t, api, "web")[0]
		slice.Endpoints[0].Addresses = []string{"1.1.1.1"}
		api.Update(t, slice)
		repair(api)
		api.Expect(t)
		expect(t, api, "web", "IPv4 1.1.1.1 a rs")
		web.Spec.Selector = map[string]string{"app": "web"}
		api.Update(t, web)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.2 b rs")
		if n := len(slicesOf(t, api, "web")); n != 1 {
			t.Errorf("%d slices, want the one there was", n)
		}
	})
}

func TestExternalNameIsLeftAlone(t *testing.T) {
	scenario(t, []client.Object{service("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), pod("web", "a", "10.1.0.1")},
		func(t *testing.T, api *kittest.API) { api.Expect(t) })
}

// Edited and deleted slices are repaired without a change of the Service; slices managed by others are left alone.
func TestManagedSlicesAreRepaired(t *testing.T) {
	foreign := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "foreign", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "me"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"5.5.5.5"}}},
	}
	const want = "IPv4 10.1.0.1 a rs"
	scenario(t, []client.Object{service("web"), pod("web", "a", "10.1.0.1"), foreign}, func(t *testing.T, api *kittest.API) {
		repair(api)
		verbs(api)
		s := slicesOf(t, api, "web")[0]
		s.Endpoints[0].Addresses = []string{"9.9.9.9"}
		api.Update(t, s)
		repair(api)
		expect(t, api, "web", want)
		s.Labels["stray"] = "label"
		api.Update(t, s)
		repair(api)
		if s = slicesOf(t, api, "web")[0]; s.Labels["stray"] != "" {
			t.Errorf("labels %v after the repair", s.Labels)
		}
		api.Remove(t, s)
		repair(api)
		expect(t, api, "web", want)
		if got := verbs(api); got != "create 1, update 2" {
			t.Errorf("writes %q, want 2 updates and a create", got)
		}
		if !api.Get(t, foreign) || len(foreign.Endpoints) != 1 {
			t.Errorf("the foreign slice was touched: %v", foreign)
		}
		foreign.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
		api.Update(t, foreign)
		repair(api)
		expect(t, api, "web", want)
		s = slicesOf(t, api, "web")[0]
		s.Labels[discoveryv1.LabelManagedBy] = "someone"
		api.Update(t, s)
		repair(api)
		expect(t, api, "web", want)
		if n := len(kittest.List[discoveryv1.EndpointSlice](t, api, "default")); n != 2 {
			t.Errorf("%d slices, want ours and the one that was taken from us", n)
		}
	})
}

// Endpoints in a slice that is being deleted do not count.
func TestSliceBeingDeletedIsReplaced(t *testing.T) {
	scenario(t, []client.Object{service("web"), pod("web", "a", "10.1.0.1")}, func(t *testing.T, api *kittest.API) {
		s := slicesOf(t, api, "web")[0]
		s.Finalizers = []string{"x/y"}
		api.Update(t, s)
		api.Delete(t, s)
		verbs(api)
		repair(api)
		if got := verbs(api); got != "create 1" {
			t.Errorf("writes %q, want one create", got)
		}
	})
}

// A conflict with another writer is not reported to the user.
func TestConflictsAreQuiet(t *testing.T) {
	scenario(t, []client.Object{service("web")}, func(t *testing.T, api *kittest.API) {
		api.FreezeWatch(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), true)
		s := slicesOf(t, api, "web")[0]
		s.Annotations = map[string]string{"other": "note"}
		api.Update(t, s)
		conflicts := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "update" {
				conflicts++
			}
			return nil
		})
		verbs(api)
		api.Create(t, pod("web", "a", "10.1.0.1"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := verbs(api); got != "" || conflicts == 0 {
			t.Errorf("%d tries, writes %q; want none to succeed over the other's write", conflicts, got)
		}
		api.FreezeWatch(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), false)
		time.Sleep(3 * time.Minute)
		expect(t, api, "web", "IPv4 10.1.0.1 a rs")
		if e := api.Events(); len(e) > 0 {
			t.Errorf("events %v, want none", e)
		}
	})
}

func TestSlicesOfADeletedServiceAreLeft(t *testing.T) {
	web := service("web")
	scenario(t, []client.Object{web, pod("web", "a", "10.1.0.1")}, func(t *testing.T, api *kittest.API) {
		verbs(api)
		api.Remove(t, web)
		repair(api)
		api.Expect(t)
		expect(t, api, "web", "IPv4 10.1.0.1 a rs")
		again := service("web")
		api.Create(t, again)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a rs")
		s := slicesOf(t, api, "web")
		if len(s) != 1 || s[0].OwnerReferences[0].UID != again.UID {
			t.Errorf("slices %v; want one, of the new Service", s)
		}
	})
}

func TestServiceBeingDeletedGetsNoNewSlices(t *testing.T) {
	web := service("web", func(s *corev1.Service) { s.Finalizers = []string{"x/y"} })
	scenario(t, []client.Object{web, pod("web", "a", "10.1.0.1")}, func(t *testing.T, api *kittest.API) {
		api.Delete(t, web)
		api.Remove(t, slicesOf(t, api, "web")[0])
		verbs(api)
		repair(api)
		api.Expect(t)
	})
}

// The garbage collector removes the owner references of orphans first, and the owner's finalizer some time after that.
func TestOrphanedSlicesStay(t *testing.T) {
	a, web := pod("web", "a", "10.1.0.1"), service("web", dual, func(s *corev1.Service) { s.Finalizers = []string{metav1.FinalizerOrphanDependents} })
	scenario(t, []client.Object{web, a}, func(t *testing.T, api *kittest.API) {
		api.Delete(t, web)
		for _, s := range slicesOf(t, api, "web") {
			s.OwnerReferences = nil
			api.Update(t, s)
		}
		verbs(api)
		repair(api)
		api.Remove(t, a)
		repair(api)
		if got := verbs(api); got != "" {
			t.Errorf("orphaned slices: %s", got)
		}
	})
}

func TestRestartWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n1", "z1"), service("web", dual), service("none"))
		for i := range 250 {
			api.Create(t, pod("web", fmt.Sprintf("p%d", i), fmt.Sprintf("10.1.%d.%d", i/200, i%200+1)))
		}
		first := api.Run(t, Descriptor())
		api.Settle()
		if got := verbs(api); got != "create 5" {
			t.Errorf("writes %q, want 5 creates: 3 slices, 2 placeholders", got)
		}
		first.Stop()
		run(t, api)
		repair(api)
		api.Expect(t)
	})
}

// Changes within the batch period cause one write.
func TestBatchPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, node("n1", "z1"), service("web"))
		o := &options{workers: 1, maxEndpoints: 100, batchPeriod: 5 * time.Second}
		api.Run(t, o.init)
		api.Settle()
		verbs(api)
		for i := range 10 {
			api.Create(t, pod("web", fmt.Sprintf("p%d", i), fmt.Sprintf("10.1.0.%d", i+1)))
			time.Sleep(300 * time.Millisecond)
		}
		api.Settle()
		api.Expect(t)
		time.Sleep(2 * time.Second)
		api.Settle()
		if got := verbs(api); got != "update 1" || len(slicesOf(t, api, "web")[0].Endpoints) != 10 {
			t.Errorf("writes %q, slices %s; want one update with all pods", got, show(t, api, "web"))
		}
	})
}

func TestPodsWaitForTheirNode(t *testing.T) {
	away := pod("web", "b", "10.1.0.2", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
	scenario(t, []client.Object{service("web"), pod("web", "a", "10.1.0.1"), away}, func(t *testing.T, api *kittest.API) {
		expect(t, api, "web", "IPv4 10.1.0.1 a rs")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := "Warning FailedToUpdateEndpointSlices Service default/web: Error updating Endpoint Slices for Service default/web: " +
			"skipping Pod b for Service default/web: Node n2 Not Found"
		if e := api.Events(); len(e) == 0 || e[0].String() != want {
			t.Errorf("events %v, want %q", e, want)
		}
		api.Create(t, node("n2", "z2"))
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a rs; IPv4 10.1.0.2 b rs")
	})
}

// Both families of a Service wait for a node.
func TestBothFamiliesWaitForANode(t *testing.T) {
	away := pod("web", "a", "10.1.0.1", func(p *corev1.Pod) {
		p.Spec.NodeName = "n2"
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::1"})
	})
	scenario(t, []client.Object{service("web", dual), away}, func(t *testing.T, api *kittest.API) {
		api.Pass(10 * time.Minute) // until the retries are far apart
		api.Create(t, node("n2", "z2"))
		api.Pass(10 * time.Millisecond)
		expect(t, api, "web", "IPv4 10.1.0.1 a rs; IPv6 fd00::1 a rs")
	})
}

// Errors are reported on one line, and only once if they are the same for both families.
func TestPodsOfMissingNodesAreNamedInOneLine(t *testing.T) {
	web := service("web", func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	away := func(p *corev1.Pod) { p.Spec.NodeName = "n2" }
	scenario(t, []client.Object{web, pod("web", "a", "10.1.0.1", away), pod("web", "b", "10.1.0.2", away)}, func(t *testing.T, api *kittest.API) {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := "Error updating Endpoint Slices for Service default/web: [skipping Pod a for Service default/web: Node n2 Not Found, " +
			"skipping Pod b for Service default/web: Node n2 Not Found]"
		for _, e := range api.Events() {
			if e.Message != want {
				t.Errorf("event %q, want %q", e.Message, want)
			}
		}
		if len(api.Events()) == 0 {
			t.Error("no event")
		}
	})
}

// Updates that fail are tried again until they are stored, without a further pod event.
func TestFailedWritesAreRetried(t *testing.T) {
	web, a := service("web"), pod("web", "a", "10.1.0.1")
	scenario(t, []client.Object{web, a}, func(t *testing.T, api *kittest.API) {
		tries := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb != "update" || tries >= 4 {
				return nil
			}
			tries++
			return []*kittest.Reaction{kittest.Refuse(http.StatusGatewayTimeout, "slow"), kittest.Refuse(http.StatusInternalServerError, "no"),
				{Err: fmt.Errorf("connection reset")}, {Drop: true}}[tries-1]
		})
		setReady(a, corev1.ConditionFalse)
		api.Update(t, a)
		time.Sleep(time.Minute)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a")
		if tries != 4 {
			t.Errorf("%d tries were disturbed, want 4", tries)
		}
		if e := api.Events(); len(e) == 0 || e[0].Reason != "FailedToUpdateEndpointSlices" ||
			!strings.HasPrefix(e[0].Message, "Error updating Endpoint Slices for Service default/web: failed to update ") {
			t.Errorf("events %v", e)
		}
		verbs(api)
		repair(api)
		api.Expect(t)
	})
}

// If the cache of slices lags, the Service waits instead of writing the same again.
func TestStaleSliceCache(t *testing.T) {
	scenario(t, []client.Object{service("web")}, func(t *testing.T, api *kittest.API) {
		verbs(api)
		gvk := discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
		api.FreezeWatch(gvk, true)
		api.Create(t, pod("web", "a", "10.1.0.1"))
		api.Settle()
		api.Create(t, pod("web", "b", "10.1.0.2"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := verbs(api); got != "update 1" {
			t.Errorf("writes %q while the cache lags, want one update", got)
		}
		api.FreezeWatch(gvk, false)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a rs; IPv4 10.1.0.2 b rs")
		if got := verbs(api); got != "update 1" {
			t.Errorf("writes %q afterwards, want one update", got)
		}
	})
}

// A slice that the garbage collector deletes right after it was updated holds up nothing, as it does in k/k#141592: the
// Service that has come in the place of the deleted one gets its own.
func TestAServiceMadeAgainGetsItsSlices(t *testing.T) {
	web, a := service("web"), pod("web", "a", "10.1.0.1")
	scenario(t, []client.Object{web, a}, func(t *testing.T, api *kittest.API) {
		gvk := discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
		api.FreezeWatch(gvk, true)
		setReady(a, corev1.ConditionFalse)
		api.Update(t, a)
		api.Pass(100 * time.Millisecond)
		expect(t, api, "web", "IPv4 10.1.0.1 a")
		for _, gone := range append([]client.Object{web, a}, client.Object(slicesOf(t, api, "web")[0])) {
			api.Remove(t, gone)
		}
		api.Create(t, service("web"))
		api.Create(t, pod("web", "a", "10.1.0.2"))
		api.Pass(100 * time.Millisecond)
		api.FreezeWatch(gvk, false)
		api.Pass(repairDelay + time.Second)
		expect(t, api, "web", "IPv4 10.1.0.2 a rs")
		if e := api.Events(); len(e) > 0 {
			t.Errorf("events %v, want none", e)
		}
	})
}

// A pod that is unready and ready again before the cache shows the first of the two writes ends up ready: what the cache
// shows meanwhile looks as it should.
func TestAFlipThatTheCacheDoesNotShow(t *testing.T) {
	a := pod("web", "a", "10.1.0.1")
	scenario(t, []client.Object{service("web"), a}, func(t *testing.T, api *kittest.API) {
		gvk := discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
		api.FreezeWatch(gvk, true)
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
			setReady(a, status)
			api.Update(t, a)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		api.FreezeWatch(gvk, false)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a rs")
	})
}

// A pod that never became ready is removed when it fails, although its readiness does not change.
func TestAPodThatFailsUnreadyIsTakenOut(t *testing.T) {
	a := pod("web", "a", "10.1.0.1", func(p *corev1.Pod) { setReady(p, corev1.ConditionFalse) })
	scenario(t, []client.Object{service("web"), a}, func(t *testing.T, api *kittest.API) {
		expect(t, api, "web", "IPv4 10.1.0.1 a")
		a.Status.Phase = corev1.PodFailed
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 empty")
	})
}

// Pods may share an address: those that use the host network, or one that was given the address of a pod that has ended.
func TestPodsThatShareAnAddress(t *testing.T) {
	a, b := pod("web", "a", "10.1.0.1"), pod("web", "b", "10.1.0.1")
	scenario(t, []client.Object{service("web"), a, b}, func(t *testing.T, api *kittest.API) {
		expect(t, api, "web", "IPv4 10.1.0.1 a rs; IPv4 10.1.0.1 b rs")
		setReady(a, corev1.ConditionFalse)
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 a; IPv4 10.1.0.1 b rs")
		a.Status.Phase = corev1.PodFailed
		api.Update(t, a)
		api.Settle()
		expect(t, api, "web", "IPv4 10.1.0.1 b rs")
		verbs(api)
		repair(api)
		api.Expect(t)
	})
}

func TestTriggerTimeIsWritten(t *testing.T) {
	web := service("web")
	scenario(t, []client.Object{web}, func(t *testing.T, api *kittest.API) {
		stamp := func() string {
			return slicesOf(t, api, "web")[0].Annotations[corev1.EndpointsLastChangeTriggerTime]
		}
		if got, want := stamp(), web.CreationTimestamp.UTC().Format(time.RFC3339Nano); got != want {
			t.Errorf("a new Service has the trigger time %q, want its creation, %q", got, want)
		}
		time.Sleep(time.Minute)
		a := pod("web", "a", "10.1.0.1")
		api.Create(t, a)
		api.Settle()
		if got, want := stamp(), a.Status.Conditions[0].LastTransitionTime.UTC().Format(time.RFC3339Nano); got != want {
			t.Errorf("a pod that is ready gives the trigger time %q, want %q", got, want)
		}
		api.Create(t, pod("web", "b", "10.1.0.2", func(p *corev1.Pod) { p.Status.Conditions = nil }))
		api.Settle()
		if got := stamp(); got != "" {
			t.Errorf("a pod without a time gives the trigger time %q, want none", got)
		}
		time.Sleep(time.Minute)
		setReady(a, corev1.ConditionFalse)
		api.Update(t, a)
		api.Settle()
		if stamp() == "" {
			t.Errorf("a pod that ceases to be ready gives no trigger time")
		}
		api.Remove(t, a)
		api.Settle()
		if got := stamp(); got != "" {
			t.Errorf("a pod that is gone gives the trigger time %q, want none", got)
		}
	})
}

func TestNamespaceGoingAwayIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		api := kittest.New(t, node("n1", "z1"), ns, service("web"))
		run(t, api)
		api.Settle()
		api.Delete(t, ns)
		api.Remove(t, slicesOf(t, api, "web")[0])
		verbs(api)
		repair(api)
		api.Expect(t)
		if e := api.Events(); len(e) > 0 {
			t.Errorf("events %v, want none", e)
		}
	})
}

func TestTopologyEvents(t *testing.T) {
	web := service("web", func(s *corev1.Service) { s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"} })
	n2 := node("n2", "z2")
	objs := []client.Object{web, n2}
	for i := range 6 {
		objs = append(objs, pod("web", fmt.Sprintf("p%d", i), fmt.Sprintf("10.1.0.%d", i+1), func(p *corev1.Pod) { p.Spec.NodeName = []string{"n1", "n2"}[i%2] }))
	}
	scenario(t, objs, func(t *testing.T, api *kittest.API) {
		hinted := func() (n int) {
			for _, e := range slicesOf(t, api, "web")[0].Endpoints {
				if e.Hints != nil {
					n++
				}
			}
			return n
		}
		last := func() string {
			e := api.Events()
			return e[len(e)-1].String()
		}
		if hinted() != 6 || last() != "Normal TopologyAwareHintsEnabled Service default/web: Topology Aware Hints has been enabled, addressType: IPv4" {
			t.Errorf("%d hinted, event %q", hinted(), last())
		}
		web.Labels = map[string]string{"a": "change"}
		api.Update(t, web)
		repair(api)
		if e := api.Events(); len(e) != 1 {
			t.Errorf("events %v, want one that tells that hints are on", e)
		}
		verbs(api)
		n2.Status.Conditions[0].Status = corev1.ConditionFalse
		api.Update(t, n2)
		repair(api)
		if hinted() != 0 || !strings.HasPrefix(last(), "Warning TopologyAwareHintsDisabled Service default/web: Insufficient Node information") {
			t.Errorf("%d hinted after a zone was lost, event %q", hinted(), last())
		}
		n2.Status.Conditions[0].Status = corev1.ConditionTrue
		api.Update(t, n2)
		web.Labels = map[string]string{"any": "change"}
		api.Update(t, web)
		repair(api)
		web.Annotations = nil
		api.Update(t, web)
		api.Settle()
		if hinted() != 0 || last() != "Warning TopologyAwareHintsDisabled Service default/web: Topology Aware Hints has been disabled, addressType: IPv4" {
			t.Errorf("%d hinted without the annotation, event %q", hinted(), last())
		}
		close := "PreferClose"
		web.Spec.TrafficDistribution = &close
		api.Update(t, web)
		api.Settle()
		if hinted() != 6 {
			t.Errorf("%d hinted with %s, want all", hinted(), close)
		}
	})
}

func TestManyServicesOfOneNamespace(t *testing.T) {
	objs := []client.Object{}
	for i := range 300 {
		objs = append(objs, service(fmt.Sprintf("s%d", i), func(s *corev1.Service) { s.Spec.Selector["team"] = "all" }))
	}
	inTeam := func(p *corev1.Pod) { p.Labels["team"] = "all" }
	for i := range 200 {
		objs = append(objs, pod(fmt.Sprintf("s%d", i), fmt.Sprintf("p%d", i), fmt.Sprintf("10.1.0.%d", i+1), inTeam))
	}
	scenario(t, objs, func(t *testing.T, api *kittest.API) {
		repair(api)
		verbs(api)
		p := pod("s7", "p7", "10.1.0.8", inTeam)
		setReady(p, corev1.ConditionFalse)
		api.Update(t, p)
		before := time.Now()
		for show(t, api, "s7") != "IPv4 10.1.0.8 p7" && time.Since(before) < 10*time.Second {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(before); took > time.Second {
			t.Errorf("the slice followed after %v", took)
		}
		if got := verbs(api); got != "update 1" {
			t.Errorf("writes %q, want one update", got)
		}
	})
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		o    options
		want int
	}{
		{options{workers: 5, maxEndpoints: 100}, 0}, {options{workers: 1, maxEndpoints: 1}, 0}, {options{workers: 50, maxEndpoints: 1000}, 0},
		{options{workers: 0, maxEndpoints: 0}, 2}, {options{workers: 51, maxEndpoints: 1001}, 2},
	} {
		if errs := c.o.validate(); len(errs) != c.want {
			t.Errorf("%+v: %v, want %d errors", c.o, errs, c.want)
		}
	}
}

func TestServicesOfASlice(t *testing.T) {
	slice := func(svc, manager string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{
			discoveryv1.LabelServiceName: svc, discoveryv1.LabelManagedBy: manager,
		}}}
	}
	const us = "endpointslice-controller.k8s.io"
	for _, c := range []struct {
		old, now *discoveryv1.EndpointSlice
		want     []string
	}{
		{nil, slice("a", us), []string{"ns/a"}},
		{slice("a", us), nil, []string{"ns/a"}},
		{slice("a", us), slice("a", us), []string{"ns/a"}},
		{slice("a", us), slice("b", us), []string{"ns/a", "ns/b"}},
		{slice("a", us), slice("a", "x"), []string{"ns/a"}},
		{slice("a", "x"), slice("a", us), []string{"ns/a"}},
		{slice("a", "x"), slice("a", "x"), nil},
		{nil, slice("", us), nil},
	} {
		var got []string
		for _, k := range servicesOfSlice(c.old, c.now) {
			got = append(got, k.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v to %v: %v, want %v", c.old, c.now, got, c.want)
		}
	}
}
