package endpointslice

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/controllers/internal/podctl"
	"orrery/kit/kittest"
)

// TestAnySequenceOfEvents disturbs a cluster at random, with watches that lag and break and writes that fail. When it
// has settled, the slices of every Service list each expected endpoint exactly once, no slice is larger than allowed, and
// nothing is written any more.
func TestAnySequenceOfEvents(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 11))
				api := kittest.New(t, node("n1", "z1"), node("n2", "z2"))
				o := &options{workers: 1 + rnd.Int32N(3), maxEndpoints: 1 + rnd.Int32N(5)}
				api.Run(t, o.init)
				failing(api, rnd)
				for range 80 {
					disturb(t, api, rnd)
					time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
				}
				api.Unreact()
				for _, gvk := range watched() {
					api.FreezeWatch(gvk, false)
					api.DelayWatch(gvk, 0)
				}
				time.Sleep(3 * time.Minute)
				api.Settle()
				checkAll(t, api, int(o.maxEndpoints))
				api.TakeWrites()
				time.Sleep(time.Minute)
				api.Settle()
				api.Expect(t)
			})
		})
	}
}

func watched() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Service"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
	}
}

// failing rejects a few writes, and carries out a few whose responses are lost.
func failing(api *kittest.API, rnd *rand.Rand) {
	luck := make(chan int, 10000) // drawn beforehand: calls come from many goroutines
	for range cap(luck) {
		luck <- rnd.IntN(25)
	}
	api.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" {
			return nil
		}
		switch <-luck {
		case 0:
			return kittest.Refuse(http.StatusInternalServerError, "no")
		case 1:
			return kittest.Refuse(http.StatusTooManyRequests, "slowly")
		case 2:
			return &kittest.Reaction{Drop: true}
		}
		return nil
	})
}

func disturb(t *testing.T, api *kittest.API, rnd *rand.Rand) {
	t.Helper()
	apps := []string{"a", "b", "c"}
	app := func() string { return apps[rnd.IntN(len(apps))] }
	gvk := watched()[rnd.IntN(3)]
	switch kind := rnd.IntN(20); {
	case kind < 10:
		disturbPod(t, api, rnd, app())
	case kind < 13:
		svc := service(app())
		if api.Get(t, svc) {
			svc.Spec.Selector["app"] = app()
			svc.Spec.PublishNotReadyAddresses = rnd.IntN(2) == 0
			api.Update(t, svc)
			return
		}
		api.Create(t, service(svc.Name, []func(*corev1.Service){dual, func(*corev1.Service) {}}[rnd.IntN(2)]))
	case kind == 13:
		if svc := service(app()); api.Get(t, svc) {
			api.Remove(t, svc)
			for _, s := range slicesOf(t, api, svc.Name) { // as the garbage collector does
				api.Remove(t, s)
			}
		}
	case kind < 17:
		if all := kittest.List[discoveryv1.EndpointSlice](t, api, "default"); len(all) > 0 {
			s := all[rnd.IntN(len(all))]
			if rnd.IntN(2) == 0 {
				api.Remove(t, s)
				return
			}
			s.Endpoints, s.Labels["stray"] = nil, "x"
			api.Update(t, s)
		}
	case kind == 17:
		api.BreakWatch(gvk)
	case kind == 18:
		api.Compact(gvk)
	default:
		api.DelayWatch(gvk, time.Duration(rnd.IntN(2000))*time.Millisecond)
	}
}

func disturbPod(t *testing.T, api *kittest.API, rnd *rand.Rand, app string) {
	t.Helper()
	n := rnd.IntN(12)
	p := pod(app, fmt.Sprintf("p%02d", n), "", without)
	p.Spec.NodeName = []string{"n1", "n2"}[n%2]
	exists := api.Get(t, p)
	if exists && rnd.IntN(5) == 0 {
		api.Remove(t, p)
		return
	}
	p.Labels = map[string]string{"app": app}
	if rnd.IntN(4) > 0 {
		p.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.1.0.%d", n+1)}, {IP: fmt.Sprintf("fd00::%x", n+1)}}[:1+n%2]
	}
	setReady(p, []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[rnd.IntN(2)])
	if rnd.IntN(8) == 0 {
		p.Status.Phase = corev1.PodFailed
	}
	if exists {
		api.Update(t, p)
	} else {
		api.Create(t, p)
	}
}

// checkAll compares all slices with those expected for the pods and Services.
func checkAll(t *testing.T, api *kittest.API, most int) {
	t.Helper()
	pods := kittest.List[corev1.Pod](t, api, "default")
	for _, svc := range kittest.List[corev1.Service](t, api, "default") {
		var want []string
		for _, family := range svc.Spec.IPFamilies {
			n := len(want)
			for _, p := range pods {
				if p.Labels["app"] != svc.Spec.Selector["app"] || p.Status.Phase == corev1.PodFailed {
					continue
				}
				for _, ip := range p.Status.PodIPs {
					if strings.Contains(ip.IP, ":") != (family == corev1.IPv6Protocol) {
						continue
					}
					flags := ""
					if podctl.Ready(p) || svc.Spec.PublishNotReadyAddresses {
						flags += "r"
					}
					if podctl.Ready(p) {
						flags += "s"
					}
					want = append(want, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", family, ip.IP, p.Name, flags)))
				}
			}
			if len(want) == n {
				want = append(want, fmt.Sprintf("%s empty", family))
			}
		}
		slices.Sort(want)
		expect(t, api, svc.Name, strings.Join(want, "; "))
		for _, s := range slicesOf(t, api, svc.Name) {
			if len(s.Endpoints) > most || s.Labels["stray"] != "" || s.OwnerReferences[0].UID != svc.UID {
				t.Errorf("slice %s of %s: %d endpoints of at most %d, labels %v, owners %v", s.Name, svc.Name, len(s.Endpoints), most, s.Labels, s.OwnerReferences)
			}
		}
	}
}
