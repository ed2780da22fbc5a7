package serving

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// zpageTitle opens the text form of a page: component, page name.
const zpageTitle = `
%s %s
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.
`

// serveZpage answers in the form the caller accepts: text, or the object of a version.
func serveZpage(w http.ResponseWriter, req *http.Request, kind string, text func(*bytes.Buffer), object func(metav1.TypeMeta) any) {
	form, ok := negotiateZpage(req.Header.Get("Accept"), kind)
	if !ok {
		answerNotAcceptable(w, req, zpageMediaTypes)
		return
	}
	if form.version == "" {
		var page bytes.Buffer
		text(&page)
		writeBody(w, "text/plain; charset=utf-8", page.Bytes())
		return
	}
	if form.version == "v1alpha1" {
		w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(kind)))
	}
	value := object(metav1.TypeMeta{Kind: kind, APIVersion: zpageGroup + "/" + form.version})
	contentType := fmt.Sprintf("%s;g=%s;v=%s;as=%s", form.mediaType, zpageGroup, form.version, kind)
	if form.mediaType == "application/json" {
		answerJSON(w, req, contentType, value, prettyIndent(req))
		return
	}
	encoded, err := yaml.Marshal(value)
	if err != nil {
		answerInternalError(w, req, fmt.Errorf("encode %s: %w", kind, err))
		return
	}
	writeBody(w, contentType, encoded)
}

// FlagValues returns the flags with their present values, for Endpoints.Flags. Those
// marked as classified show no value.
func FlagValues(sets ...*pflag.FlagSet) map[string]string {
	values := map[string]string{}
	for _, set := range sets {
		set.VisitAll(func(f *pflag.Flag) {
			values[f.Name] = f.Value.String()
			if len(f.Annotations["classified"]) > 0 {
				values[f.Name] = "CLASSIFIED"
			}
		})
	}
	return values
}

// flagz is the structured form of /flagz.
type flagz struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Flags map[string]string `json:"flags,omitempty"`
}

type flagzPage struct {
	component string
	flags     func() map[string]string
}

func (p flagzPage) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	flags := p.flags()
	serveZpage(w, req, "Flagz", func(page *bytes.Buffer) {
		fmt.Fprintf(page, zpageTitle, p.component, "flagz")
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			fmt.Fprintf(page, "%s=%s\n", name, flags[name])
		}
	}, func(kind metav1.TypeMeta) any {
		return flagz{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Name: p.component}, Flags: flags}
	})
}

// Status is what /statusz says beside what it finds out itself.
type Status struct {
	// BinaryVersion is the Kubernetes version the daemon is equal to, as 1.37.2.
	BinaryVersion string
	// EmulationVersion is the Kubernetes version it behaves like, as 1.37; empty leaves it out.
	EmulationVersion string
}

// statusz is the structured form of /statusz.
type statusz struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	StartTime        metav1.Time `json:"startTime"`
	UptimeSeconds    int64       `json:"uptimeSeconds"`
	GoVersion        string      `json:"goVersion"`
	BinaryVersion    string      `json:"binaryVersion"`
	EmulationVersion string      `json:"emulationVersion,omitempty"`
	Paths            []string    `json:"paths"`
}

type statuszPage struct {
	component string
	status    Status
	paths     func() []string
}

func (p statuszPage) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s := p.observe(time.Now())
	serveZpage(w, req, "Statusz", func(page *bytes.Buffer) {
		fmt.Fprintf(page, zpageTitle, p.component, "statusz")
		writeStatus(page, s)
	}, func(kind metav1.TypeMeta) any {
		s.TypeMeta = kind
		return s
	})
}

func (p statuszPage) observe(now time.Time) statusz {
	seconds, err := metrics.GetProcessStart()
	if err != nil {
		klog.ErrorS(err, "Process start time not known")
	}
	start := time.Unix(int64(seconds), 0)
	return statusz{
		ObjectMeta:       metav1.ObjectMeta{Name: p.component},
		StartTime:        metav1.NewTime(start),
		UptimeSeconds:    max(0, int64(now.Sub(start).Seconds())),
		GoVersion:        version.Get().GoVersion,
		BinaryVersion:    p.status.BinaryVersion,
		EmulationVersion: p.status.EmulationVersion,
		Paths:            topLevel(p.paths()),
	}
}

func writeStatus(page *bytes.Buffer, s statusz) {
	fmt.Fprintf(page, "\nStarted: %s\n", s.StartTime.Format(time.UnixDate))
	fmt.Fprintf(page, "Up: %d hr %02d min %02d sec\n", s.UptimeSeconds/3600, s.UptimeSeconds/60%60, s.UptimeSeconds%60)
	fmt.Fprintf(page, "Go version: %s\nBinary version: %s\n", s.GoVersion, s.BinaryVersion)
	if s.EmulationVersion != "" {
		fmt.Fprintf(page, "Emulation version: %s\n", s.EmulationVersion)
	}
	if len(s.Paths) > 0 {
		fmt.Fprintf(page, "Paths: %s\n", strings.Join(s.Paths, " "))
	}
}

// topLevel returns the first elements of the paths, without duplicates.
func topLevel(paths []string) []string {
	tops := []string{}
	for _, path := range paths {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if top != "" {
			tops = append(tops, "/"+top)
		}
	}
	slices.Sort(tops)
	return slices.Compact(tops)
}
