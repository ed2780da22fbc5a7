package options

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestDefaultsAreValidAndSilent(t *testing.T) {
	s := mustParse(t)
	if err := validate(s); err != nil {
		t.Error(err)
	}
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("the defaults warn: %q", w)
	}
}

func TestValidateReportsEveryProblemAtOnce(t *testing.T) {
	s := mustParse(t,
		"--kube-api-qps=5", "--kube-api-burst=0", "--kube-api-content-type=text/html",
		"--controller-start-interval=-1s", "--leader-elect-lease-duration=5s", "--leader-elect-retry-period=20s",
		"--leader-elect-resource-lock=endpoints", "--leader-elect-resource-name=A_b", "--leader-elect-resource-namespace=a.b",
		"--controllers=*,-nope,replicaset", "--leader-migration-config=/nowhere", "--enable-leader-migration",
		"--feature-gates=HPAScaleToZero=maybe,PodDeletionCost", "--emulated-version=1.38", "--min-compatibility-version=1.30",
		"--cloud-provider=aws", "--cidr-allocator-type=CloudAllocator", "--cluster-cidr=10.0.0.0/33",
		"--concurrent-serviceaccount-token-syncs=0", "--secure-port=70000", "--tls-cert-file=a.crt",
		"--authentication-token-webhook-cache-ttl=-1s", "--authorization-webhook-cache-authorized-ttl=-1s",
		"--concurrent-deployment-syncs=0", "--service-cluster-ip-range=10.0.0.0/8,11.0.0.0/8",
		"--webhook-port=0", "--show-hidden-metrics-for-version=x", "--logging-format=xml", "--log-flush-frequency=0", "--log-text-split-stream",
	)
	checkLines(t, text(validate(s)), [][]string{
		{"--kube-api-burst", "at least 1", "got 0"},
		{"--kube-api-content-type", "application/json", `"text/html"`},
		{"--controller-start-interval", "at least 0", "-1s"},
		{"--leader-elect-resource-lock", "leases", `"endpoints"`},
		{"--leader-elect-lease-duration", "greater than --leader-elect-renew-deadline", "5s and 10s"},
		{"--leader-elect-renew-deadline", "1.2 times --leader-elect-retry-period", "10s and 20s"},
		{"--leader-elect-resource-name", `"A_b"`},
		{"--leader-elect-resource-namespace", `"a.b"`},
		{"--controllers", `"nope"`},
		{"--leader-migration-config", "/nowhere"},
		{"--feature-gates", "name=true or name=false", `"HPAScaleToZero=maybe"`},
		{"--feature-gates", `"PodDeletionCost"`},
		{"--emulated-version", "from 1.34 to 1.37", `"1.38"`},
		{"--min-compatibility-version", "from 1.34 to 1.37", `"1.30"`},
		{"--webhook-port", "1 to 65535", "got 0"},
		{"--cloud-provider", `"aws"`, "external"},
		{"--cidr-allocator-type", "RangeAllocator", `"CloudAllocator"`},
		{"--cluster-cidr", "10.244.0.0/16", `"10.0.0.0/33"`},
		{"--concurrent-serviceaccount-token-syncs", "at least 1", "got 0"},
		{"--secure-port", "65535", "70000"},
		{"--tls-cert-file", "--tls-private-key-file"},
		{"--authentication-token-webhook-cache-ttl"},
		{"--authorization-webhook-cache-authorized-ttl"},
		{"--concurrent-deployment-syncs", "at least 1", "got 0"},
		{"--service-cluster-ip-range", "one IPv4 and one IPv6"},
		{"--show-hidden-metrics-for-version", `"x"`},
		{"--log-flush-frequency"},
		{"--logging-format", "text or json", `"xml"`},
		{"--log-text-split-stream", "LoggingAlphaOptions"},
	})
}

func TestElectionIsCheckedOnlyIfOn(t *testing.T) {
	if err := validate(mustParse(t, "--leader-elect=false", "--leader-elect-lease-duration=0s")); err != nil {
		t.Error(err)
	}
	checkLines(t, text(validate(mustParse(t, "--leader-elect-lease-duration=900ms", "--leader-elect-renew-deadline=100ms", "--leader-elect-retry-period=0"))), [][]string{
		{"--leader-elect-lease-duration", "at least 1s", "900ms"},
		{"--leader-elect-retry-period", "greater than 0"},
	})
}

func TestCIDRs(t *testing.T) {
	for value, problems := range map[string]int{
		"": 0, "10.244.0.0/16": 0, "fd00::/48": 0, "10.0.0.0/8,fd00::/48": 0, "010.0.0.0/8": 0,
		"10.0.0.0": 1, "10.0.0.0/8,": 1, "10.0.0.0/8,11.0.0.0/8": 1, "fd00::/48,fd01::/48": 1, "10.0.0.0/8,fd00::/48,x": 2,
	} {
		if errs := validateCIDRs("cluster-cidr", value); len(errs) != problems {
			t.Errorf("%q: got %v, want %d problems", value, errs, problems)
		}
	}
	checkLines(t, text(validate(mustParse(t, "--allocate-node-cidrs"))), [][]string{{"--allocate-node-cidrs=true needs --cluster-cidr"}})
}

// TestRangesThatNobodyReads: where another program hands out pod addresses, its manifests may say anything of them here.
func TestRangesThatNobodyReads(t *testing.T) {
	for _, off := range []string{"*,-nodeipam", "*,-node-ipam-controller", "deployment"} {
		s := mustParse(t, "--controllers="+off, "--allocate-node-cidrs", "--service-cluster-ip-range=10.0.0.0/8,11.0.0.0/8")
		if err := validate(s); err != nil {
			t.Errorf("--controllers=%s: %v", off, err)
		}
	}
}

func TestUnknownFlagsSuggestTheNearest(t *testing.T) {
	for arg, want := range map[string]string{
		"--concurent-deployment-syncs=3": "did you mean --concurrent-deployment-syncs?",
		"--leader-elct":                  "did you mean --leader-elect?",
		"--nodepool-at-once=3":           "did you mean --nodepools-at-once?",
		"--concurrent-service-syncs=1":   "unknown flag: --concurrent-service-syncs", // upstream dropped it in 1.37
		"--qqqqqqqq":                     "unknown flag: --qqqqqqqq",
		"-x":                             "unknown shorthand flag",
	} {
		_, err := parse(arg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", arg, err, want)
		}
	}
	if _, err := parse("--qqqqqqqq"); strings.Contains(err.Error(), "did you mean") {
		t.Errorf("nothing is near, yet: %v", err)
	}
}

func TestFlagsOfUnbuiltControllersWarnAndKeepTheirType(t *testing.T) {
	s := mustParse(t, "--concurrent-job-syncs=7", "--enable-dynamic-provisioning=false", "--horizontal-pod-autoscaler-tolerance=0.2", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8")
	checkLines(t, strings.Join(s.Warnings(), "\n"), [][]string{
		{"--horizontal-pod-autoscaler-tolerance=0.2", "horizontal-pod-autoscaler-controller", "not in this build"},
		{"--concurrent-job-syncs=7", "job-controller"},
		{"--enable-dynamic-provisioning=false", "persistentvolume-binder-controller"},
		{"--allocate-node-cidrs=true", "node-ipam-controller"},
	})
	for _, arg := range []string{
		"--concurrent-job-syncs=many", "--concurrent-job-syncs=5000000000", "--pvclaimbinder-sync-period=1",
		"--enable-dynamic-provisioning=perhaps", "--horizontal-pod-autoscaler-tolerance=x",
	} {
		if _, err := parse(arg); err == nil || !strings.Contains(err.Error(), arg[:10]) {
			t.Errorf("%s: got %v, want an error", arg, err)
		}
	}
}

func TestFlagsOfBuiltControllersAreTheirOwn(t *testing.T) {
	s := mustParse(t, "--concurrent-deployment-syncs=9", "--nodepools-at-once=1")
	if w := s.Warnings(); len(w) > 0 {
		t.Errorf("Warnings() = %q", w)
	}
	fss := s.Flags()
	if i, j := slices.Index(fss.Order, "nodepool-controller"), slices.Index(fss.Order, "metrics"); i < 0 || i > j {
		t.Errorf("sections %q: those of our own controllers come before metrics", fss.Order)
	}
	if got := s.flag("concurrent-deployment-syncs").Usage; got != "Deployments handled at once." {
		t.Errorf("usage %q is not the descriptor's", got)
	}
}

func TestNoFlagIsRegisteredTwice(t *testing.T) {
	s := mustParse(t)
	seen := map[string]bool{}
	s.visitFlags(func(f *pflag.Flag) {
		if seen[f.Name] {
			t.Errorf("--%s is in two sections", f.Name)
		}
		seen[f.Name] = true
	})
}

func TestQPS(t *testing.T) {
	s := mustParse(t)
	if s.QPS > 0 {
		t.Errorf("QPS = %v, want not limited", s.QPS)
	}
	s = mustParse(t, "--kube-api-qps=20", "--kube-api-burst=40")
	if s.QPS != 20 || s.Burst != 40 || len(s.Warnings()) > 0 {
		t.Errorf("QPS, Burst = %v, %v, warnings %q", s.QPS, s.Burst, s.Warnings())
	}
	checkLines(t, strings.Join(mustParse(t, "--kube-api-burst=40").Warnings(), "\n"), [][]string{{"--kube-api-burst=40", "no effect"}})
	checkLines(t, text(validate(mustParse(t, "--kube-api-qps=NaN"))), [][]string{{"--kube-api-qps", "NaN"}})
}

func TestEffectiveFlags(t *testing.T) {
	lines := mustParse(t, "--v=3", "--controllers=*,-foo").EffectiveFlags()
	for _, want := range []string{"--v=3", "--controllers=[*,-foo]", "--leader-elect=true", "--concurrent-job-syncs=5", "--kubeconfig="} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if !slices.IsSorted(lines) || len(lines) < 140 {
		t.Errorf("%d lines, sorted: %t", len(lines), slices.IsSorted(lines))
	}
}

func TestMetricsAndLogsNameTheirFlags(t *testing.T) {
	s := mustParse(t, "--allow-metric-labels=a=b", "--disabled-metrics=9a", "--allow-metric-labels-manifest=/x",
		"--vmodule=a=1", "--logging-format=json", "--log-json-info-buffer-size=1k")
	checkLines(t, text(validate(s)), [][]string{
		{"--disabled-metrics", "9a"},
		{"--allow-metric-labels", "metricName,labelName"},
		{"--allow-metric-labels-manifest", `"/x"`},
		{"--allow-metric-labels and --allow-metric-labels-manifest", `"/x"`},
		{"--vmodule", "text log format"},
		{"--log-json-info-buffer-size", "LoggingAlphaOptions"},
	})
	if err := validate(mustParse(t, "--feature-gates=LoggingAlphaOptions=true", "--logging-format=json", "--log-json-info-buffer-size=1k")); err != nil {
		t.Error(err)
	}
}
