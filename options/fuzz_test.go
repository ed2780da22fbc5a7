package options

import (
	"strings"
	"testing"
)

// FuzzConfig feeds arbitrary files. A file is either refused, with its name in every line, or its settings survive
// being rendered and read again.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"", header, header + "Generic: {ClientConnection: {qps: 1e99}}\n", header + "Generic: &a {Controllers: [*a]}\n",
		header + "Generic: &a\n  ClientConnection: *a\n", header + "a: &a [*a]\n", header + "<<: {Generic: {}}\n",
		header + "Generic: {Controllers: ['*', \"-a,b\", '']}\n", header + "GarbageCollectorController: {GCIgnoredResources: [{Group: '', Resource: x}]}\n",
		header + "NodeIPAMController: {SecondaryServiceCIDR: x}\n", header + "NodeIPAMController: {ServiceCIDR: 'a,b', SecondaryServiceCIDR: c}\n",
		header + "NodeLifecycleController: {NodeEvictionRate: .nan, UnhealthyZoneThreshold: -.inf}\n", "- ? a\n", "kind: kind\napiVersion: apiVersion", "{kind: [], apiVersion: {}}",
		header + "Generic: {MinResyncPeriod: 1e9h}\n? {a: b}\n: c\n", header + "Generic: !!str x\nJobController: !!map []\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		s, err := withConfig(t, data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml") {
				t.Errorf("%q does not name the file", err)
			}
			return
		}
		_, _ = validate(s), s.Warnings()
		rendered := asJSON(t, s.Configz())
		again, err := withConfig(t, rendered)
		if err != nil {
			t.Fatalf("refused what was rendered: %v\n%s", err, rendered)
		}
		if got := asJSON(t, again.Configz()); got != rendered {
			t.Errorf("got %s\nwant %s", got, rendered)
		}
	})
}

// FuzzFlags feeds arbitrary command lines, one argument per line: whatever parses can be validated.
func FuzzFlags(f *testing.F) {
	for _, seed := range []string{
		"", "--v=2\n--controllers=*,-foo", "--feature-gates=kube:A=true,,B", "--kube-api-qps=NaN\n--kube-api-burst=-1",
		"--cluster-cidr=,,\n--allocate-node-cidrs", "--emulated-version==1", "--leader-elect-retry-period=2562047h47m16.854775807s",
		"--tls-sni-cert-key=,:", "--vmodule=a=b=c", "--concurrent-job-syncs\n3", "-v\n9", "--no-such", "--\n-x", "---", "--=",
		"--allow-metric-labels=a,b=c", "--show-hidden-metrics-for-version=1.0.0.0", "--horizontal-pod-autoscaler-tolerance=0x1p-2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, flag := range []string{"leader-migration-config", "allow-metric-labels-manifest"} {
			if strings.Contains(line, flag) {
				t.Skip("these read files when they are validated")
			}
		}
		s, err := parse(strings.Split(line, "\n")...)
		if err != nil {
			return
		}
		_, _ = validate(s), s.Warnings()
		for _, d := range s.Controllers {
			if s.IsEnabled(d) != (s.DisabledReason(d) == "") {
				t.Errorf("%s", d.Name)
			}
		}
		if n := len(s.EffectiveFlags()); n < 140 {
			t.Errorf("%d flags in effect", n)
		}
	})
}
