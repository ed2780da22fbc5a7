package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var (
	uid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	address = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	// steps are those in which a Deployment is scaled: how many there are depends on when pods become ready.
	steps = regexp.MustCompile(`from \d+ to \d+`)
	token = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`)
	// refused is a pod that the server did not take, or a change of one, in a message: no object has taught us its name.
	refused = regexp.MustCompile(`\b([Pp]ods?) (\\?")([^"\\]*?)[bcdfghjklmnpqrstvwxz2456789]{5}(\\?")`)
	// counts are those of a Service's endpoints in events, which depend on when pods become ready.
	counts = regexp.MustCompile(`\(\d+ endpoints, \d+ zones\)`)
	// missed is the budget in an event: see the last row of PodDisruptionBudgets in the README's differences.
	missed = regexp.MustCompile(`expected by PDB \S+`)
	// chosen is one of several budgets.
	chosen = regexp.MustCompile(`Chose "[^"]*"`)
)

// aliases map the names that the server has drawn at random in one namespace to names that are the same in both clusters.
type aliases struct {
	known map[string]string
	// replace does so in text; nil after a new name.
	replace *strings.Replacer
}

func newAliases() *aliases { return &aliases{known: map[string]string{}} }

// learn remembers the name of an object if the server has made it.
func (a *aliases) learn(u *unstructured.Unstructured) {
	prefix := u.GetGenerateName()
	if !drawn(u) || a.known[u.GetName()] != "" {
		return
	}
	a.known[u.GetName()] = prefix + "*"
	a.replace = nil
}

// drawn reports whether the server has drawn the end of an object's name, five characters after at most 58 of the prefix. The
// pods of StatefulSets have names of their own beside metadata.generateName.
func drawn(obj metav1.Object) bool {
	prefix := obj.GetGenerateName()
	return prefix != "" && len(obj.GetName()) == min(len(prefix), 58)+5
}

func (a *aliases) in(text string) string {
	if a.replace == nil {
		var pairs []string
		for name, alias := range a.known {
			pairs = append(pairs, name, alias)
		}
		a.replace = strings.NewReplacer(pairs...)
	}
	return a.replace.Replace(text)
}

// normalize returns an object as YAML without what differs between two clusters by its nature.
func normalize(kind string, obj *unstructured.Unstructured, names *aliases) string {
	obj = obj.DeepCopy()
	meta := obj.Object["metadata"].(map[string]any)
	generation, observed := obj.GetGeneration(), int64(-1)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "generateName"} {
		delete(meta, field)
	}
	if status, ok := obj.Object["status"].(map[string]any); ok {
		if seen, ok := status["observedGeneration"].(int64); ok {
			observed = seen
			status["observedGeneration"] = "current"
			if observed != generation {
				status["observedGeneration"] = "old"
			}
		}
		byType(status["conditions"])
	}
	switch kind {
	case "nodes":
		// Two loops of the node lifecycle add taints at the same time.
		taints, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "taints")
		list, _ := taints.([]any)
		byText(list, names)
	case "pods":
		// The scheduler chooses the node, but for pods that are pinned to one, and for a program's own nodes, on which it has no choice.
		if spec, ok := obj.Object["spec"].(map[string]any); ok && spec["nodeName"] != nil && !ownedBy(obj, "DaemonSet") && programName.FindString(fmt.Sprint(spec["nodeName"])) != programOf(obj) && obj.GetAnnotations()[pinned] == "" {
			spec["nodeName"] = "<node>"
			for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
				unstructured.RemoveNestedField(obj.Object, "metadata", "labels", label)
			}
		}
		claimsByText(obj, names)
	case "deployments":
		plainProgress(obj)
	case "endpointslices":
		normalizeSlice(obj, names)
	case "services":
		withoutNodePorts(obj)
	case "cronjobs":
		active, _, _ := unstructured.NestedSlice(obj.Object, "status", "active")
		for _, ref := range active {
			delete(ref.(map[string]any), "resourceVersion")
		}
		if len(active) > 0 {
			obj.Object["status"].(map[string]any)["active"] = active
		}
	case "secrets":
		secretDigest(obj)
	case "configmaps":
		withoutCA(obj)
	}
	text, err := yaml.Marshal(obj.Object)
	if err != nil {
		panic(err) // it came as JSON
	}
	return plain(string(text), names)
}

// claimsByText sorts the volumes of a pod if some of them are claims: upstream adds those of a StatefulSet in any order.
func claimsByText(pod *unstructured.Unstructured, names *aliases) {
	volumes, _, _ := unstructured.NestedFieldNoCopy(pod.Object, "spec", "volumes")
	list, _ := volumes.([]any)
	if slices.ContainsFunc(list, func(v any) bool { m, _ := v.(map[string]any); return m["persistentVolumeClaim"] != nil }) {
		byText(list, names)
	}
}

func plain(text string, names *aliases) string {
	text = names.in(text)
	text = uid.ReplaceAllString(text, "<uid>")
	text = instant.ReplaceAllString(text, "<time>")
	text = withoutAddresses(text)
	text = refused.ReplaceAllString(text, "$1 $2$3*$4")
	text = alike.ReplaceAllString(text, "$1*")
	return token.ReplaceAllString(text, "kube-api-access-*")
}

func ownedBy(obj *unstructured.Unstructured, kind string) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.Kind == kind })
}

// someData marks data that is not the same in both clusters, by the kind of what it holds.
const someData = "<%s>"

// secretDigest replaces the tokens and CAs of a Secret; what a program has written is kept.
func secretDigest(obj *unstructured.Unstructured) {
	data, _ := obj.Object["data"].(map[string]any)
	for key, value := range data {
		text, _ := value.(string)
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) > 100 {
			data[key] = fmt.Sprintf(someData, key)
		}
	}
}

// withoutCA replaces the CA in the ConfigMap that publishes it.
func withoutCA(obj *unstructured.Unstructured) {
	data, _ := obj.Object["data"].(map[string]any)
	if ca, _ := data["ca.crt"].(string); obj.GetName() == rootCA && strings.HasPrefix(ca, "-----BEGIN CERTIFICATE") {
		data["ca.crt"] = fmt.Sprintf(someData, "ca")
	}
}

// withoutNodePorts leaves out the ports that the server has drawn.
func withoutNodePorts(svc *unstructured.Unstructured) {
	unstructured.RemoveNestedField(svc.Object, "spec", "healthCheckNodePort")
	ports, _, _ := unstructured.NestedFieldNoCopy(svc.Object, "spec", "ports")
	list, _ := ports.([]any)
	for _, p := range list {
		if p, ok := p.(map[string]any); ok {
			delete(p, "nodePort")
		}
	}
}

// byType sorts conditions.
func byType(list any) {
	conditions, _ := list.([]any)
	slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(typeOf(a), typeOf(b)) })
}

func typeOf(condition any) string {
	m, _ := condition.(map[string]any)
	name, _ := m["type"].(string)
	return name
}

// byText sorts a list by what is left of its elements.
func byText(list []any, names *aliases) {
	slices.SortFunc(list, func(a, b any) int {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return strings.Compare(plain(string(x), names), plain(string(y), names))
	})
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// combined is what the message of an event begins with that stands for several, of which only the last is shown.
const combined = "(combined from similar events): "

// eventLine returns what an event says, or nothing if it is not from a controller manager.
func eventLine(obj *unstructured.Unstructured, names *aliases) string {
	get := func(fields ...string) string {
		text, _, _ := unstructured.NestedString(obj.Object, fields...)
		return text
	}
	source := get("source", "component")
	if source == "" {
		source = get("reportingComponent")
	}
	if source == "" || source == "default-scheduler" || strings.HasSuffix(source, "-repair-controller") { // the last are the server's
		return ""
	}
	if get("reason") == "FailedToUpdateEndpointSlices" && strings.HasSuffix(get("message"), "not found") {
		return "" // the garbage collector was faster
	}
	message := strings.TrimPrefix(get("message"), combined)
	if strings.Contains(message, "the object has been modified; please apply your changes to the latest version") {
		return "" // whether two writers meet is a matter of luck
	}
	if get("reason") == "OwnerRefInvalidNamespace" {
		// README, "Garbage collection": each such reference is reported, and not only the first of an object.
		message = "*"
	}
	line := fmt.Sprintf("%s %s %s/%s: %s: %s", source, get("type"), get("involvedObject", "kind"), get("involvedObject", "name"), get("reason"), message)
	if strings.HasPrefix(get("reason"), "TopologyAwareHints") {
		if !strings.HasPrefix(get("involvedObject", "name"), hintedPrefix) {
			return "" // which of them there are depends on when pods become ready
		}
		line, _, _ = strings.Cut(line, ", addressType:") // of the family that was first
	}
	line = chosen.ReplaceAllString(line, "Chose <one>")
	line = missed.ReplaceAllString(line, "expected by PDB <pdb>")
	line = counts.ReplaceAllString(line, "(<n> endpoints, <n> zones)")
	return steps.ReplaceAllString(plain(line, names), "from <n> to <n>")
}

// cancelled is the event of upstream's taint eviction about a pod that it has just deleted: whether the deletion is seen
// before the work is marked as done is a matter of luck.
var cancelled = regexp.MustCompile(`TaintManagerEviction: Cancelling deletion of Pod (.*)$`)

// withoutLuck leaves out the events of taint evictions that were cancelled, of pods that were evicted in the end.
func withoutLuck(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		m := cancelled.FindStringSubmatch(line)
		return m != nil && slices.ContainsFunc(lines, func(other string) bool { return strings.HasSuffix(other, "Marking for deletion Pod "+m[1]) })
	})
}
