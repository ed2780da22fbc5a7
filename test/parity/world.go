package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// kinds are the resources that are compared, and those that programs write.
var kinds = map[string]schema.GroupVersionResource{
	"namespaces":             {Version: "v1", Resource: "namespaces"},
	"nodes":                  {Version: "v1", Resource: "nodes"},
	"pods":                   {Version: "v1", Resource: "pods"},
	"services":               {Version: "v1", Resource: "services"},
	"configmaps":             {Version: "v1", Resource: "configmaps"},
	"secrets":                {Version: "v1", Resource: "secrets"},
	"serviceaccounts":        {Version: "v1", Resource: "serviceaccounts"},
	"persistentvolumeclaims": {Version: "v1", Resource: "persistentvolumeclaims"},
	"replicationcontrollers": {Version: "v1", Resource: "replicationcontrollers"},
	"resourcequotas":         {Version: "v1", Resource: "resourcequotas"},
	"deployments":            {Group: "apps", Version: "v1", Resource: "deployments"},
	"replicasets":            {Group: "apps", Version: "v1", Resource: "replicasets"},
	"statefulsets":           {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"daemonsets":             {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"controllerrevisions":    {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	"jobs":                   {Group: "batch", Version: "v1", Resource: "jobs"},
	"cronjobs":               {Group: "batch", Version: "v1", Resource: "cronjobs"},
	"poddisruptionbudgets":   {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"endpointslices":         {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	"things":                 {Group: customGroup, Version: "v1", Resource: "things"},
	"realms":                 {Group: customGroup, Version: "v1", Resource: "realms"},
	"events":                 {Version: "v1", Resource: "events"},
}

// A world is one of the two clusters.
type world struct {
	name   string
	client kubernetes.Interface
	any    dynamic.Interface
	stores map[string]cache.Indexer
	grace  time.Duration // after which a silent node is given up

	custom    sync.Once // after which custom kinds are collected
	customErr error

	mu      sync.Mutex          // guards the maps
	changes map[string]int      // by the name of the program
	names   map[string]*aliases // by the name of the program
	ending  map[string]bool     // namespaces in which all pods go when they are deleted
}

// newWorld fills the caches.
func newWorld(ctx context.Context, name string, config *rest.Config) (*world, error) {
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	custom, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &world{name: name, client: client, any: custom, stores: map[string]cache.Indexer{}, changes: map[string]int{}, names: map[string]*aliases{}, ending: map[string]bool{}}
	if err := w.define(ctx); err != nil {
		return nil, fmt.Errorf("define custom kinds: %w", err)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(custom, 0)
	var synced []cache.InformerSynced
	for kind, gvr := range kinds {
		informer := factory.ForResource(gvr).Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.changed(kind, obj) },
			UpdateFunc: func(_, obj any) { w.changed(kind, obj) },
			DeleteFunc: func(obj any) { w.changed(kind, obj) },
		}); err != nil {
			return nil, err
		}
		w.stores[kind] = informer.GetIndexer()
		synced = append(synced, informer.HasSynced)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("caches of %s: %w", name, context.Cause(ctx))
	}
	return w, nil
}

// changed remembers that an object's program has to be looked at again, and the name of the object.
func (w *world) changed(kind string, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	program := programOf(u)
	if program == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind != "events" {
		w.changes[program]++
	}
	if w.names[program] == nil {
		w.names[program] = newAliases()
	}
	w.names[program].learn(u)
}

// end lets all pods of a namespace go when they are deleted.
func (w *world) end(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending[namespace] = true
}

func (w *world) isEnding(namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending[namespace]
}

// look returns how often the program's objects have changed and, if that is not the number before, these objects as normalized text.
func (w *world) look(program string, before int) (changes int, objects []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes = w.changes[program]
	if changes == before {
		return changes, nil
	}
	objects = []string{}
	for kind := range kinds {
		if kind == "events" {
			continue
		}
		current, names := w.objects(kind, program), w.names[program]
		if kind == "endpointslices" {
			current = w.merged(current, names)
		}
		for _, u := range current {
			objects = append(objects, normalize(kind, u, names))
		}
		if kind == "pods" {
			objects = append(objects, layout(w.objects(kind, program))...)
		}
	}
	return changes, sorted(objects)
}

// objects returns those of a kind that belong to a program.
func (w *world) objects(kind, program string) (out []*unstructured.Unstructured) {
	var all []any
	if clusterScoped[kind] {
		all = w.stores[kind].List()
	} else {
		for _, namespace := range w.stores[kind].ListIndexFuncValues(cache.NamespaceIndex) {
			if programName.FindString(namespace) != program {
				continue
			}
			objects, err := w.stores[kind].ByIndex(cache.NamespaceIndex, namespace)
			if err != nil {
				panic(err) // the index is there by default
			}
			all = append(all, objects...)
		}
	}
	for _, obj := range all {
		if u := obj.(*unstructured.Unstructured); programOf(u) == program {
			out = append(out, u)
		}
	}
	return out
}

// most is how many events about one object a recorder sends at once; others are dropped.
const most = 25

// happened returns the events about a program's objects as normalized text, each once, by whom and what they are about and by
// their reason. full has the objects with so many events, with repetitions, that some may have been dropped, and the reasons of
// events that have been combined.
func (w *world) happened(program string) (lines map[[2]string][]string, full map[[2]string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, count := map[string]bool{}, map[string]int64{}
	lines, full = map[[2]string][]string{}, map[[2]string]bool{}
	for _, u := range w.eventsOf(program) {
		line := eventLine(u, w.names[program])
		if line == "" {
			continue
		}
		head, rest, _ := strings.Cut(line, ": ")
		about := head[:strings.Index(head, " ")] + head[strings.LastIndex(head, " "):]
		reason, _, _ := strings.Cut(rest, ": ")
		n, _, _ := unstructured.NestedInt64(u.Object, "count")
		if count[about] += max(1, n); count[about] >= most {
			full[[2]string{about}] = true
		}
		if message, _, _ := unstructured.NestedString(u.Object, "message"); strings.HasPrefix(message, combined) {
			full[[2]string{about, reason}] = true
		}
		if !seen[line] {
			seen[line] = true
			lines[[2]string{about, reason}] = append(lines[[2]string{about, reason}], line)
		}
	}
	for about := range lines {
		lines[about] = withoutLuck(lines[about])
	}
	return lines, full
}

// eventsOf returns the events about a program's objects.
func (w *world) eventsOf(program string) []*unstructured.Unstructured {
	events := w.objects("events", program)
	// Those about nodes and other objects without a namespace.
	others, err := w.stores["events"].ByIndex(cache.NamespaceIndex, metav1.NamespaceDefault)
	if err != nil {
		panic(err) // the index is there by default
	}
	for _, obj := range others {
		u := obj.(*unstructured.Unstructured)
		if name, _, _ := unstructured.NestedString(u.Object, "involvedObject", "name"); programName.FindString(name) == program {
			events = append(events, u)
		}
	}
	return events
}

// plain is text without what differs by its nature.
func (w *world) plain(program, text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if names := w.names[program]; names != nil {
		return plain(text, names)
	}
	return plain(text, newAliases())
}

// prepare creates a program's namespace and waits until pods can be made in it.
func (w *world) prepare(ctx context.Context, namespace string) (*subject, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	s := &subject{world: w, namespace: namespace, uids: map[string]string{}}
	for {
		if _, found, _ := w.stores["serviceaccounts"].GetByKey(namespace + "/default"); found {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
