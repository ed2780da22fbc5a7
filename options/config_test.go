package options

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	kcmconfigv1alpha1 "k8s.io/kube-controller-manager/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

const header = "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n"

// withConfig completes a command line with a file; nothing is read from disk.
func withConfig(t *testing.T, data string, args ...string) (*CMServer, error) {
	t.Helper()
	s := mustParse(t, args...)
	return s, s.applyConfig("f.yaml", []byte(data))
}

func TestConfigSetsWhatFlagsDoNot(t *testing.T) {
	s, err := withConfig(t, header+`
Generic:
  ClientConnection: {qps: 50, burst: 100, acceptContentTypes: application/json}
  LeaderElection: {leaderElect: false, leaseDuration: 30s}
  ControllerStartInterval: 2s
  Controllers: ["*", "-deployment"]
KubeCloudShared:
  ClusterCIDR: 10.244.0.0/16
  ConfigureCloudRoutes: no
DeploymentController:
  ConcurrentDeploymentSyncs: 10
GarbageCollectorController:
  GCIgnoredResources:
  - {Group: metrics.k8s.io, Resource: pods}
NodeIPAMController: {ServiceCIDR: 10.0.0.0/8, SecondaryServiceCIDR: fd00::/108}
JobController:
  ConcurrentJobSyncs: 8
`, "--kube-api-burst=70", "--leader-elect-lease-duration=20s")
	if err != nil {
		t.Fatal(err)
	}
	e := s.LeaderElection
	if s.QPS != 50 || s.Burst != 70 || e.LeaderElect || e.LeaseDuration.Duration != 20*time.Second || s.ControllerStartInterval.Duration != 2*time.Second {
		t.Errorf("Generic = %+v", s.Generic)
	}
	if s.AcceptContentTypes != "application/json" || !reflect.DeepEqual(s.Selection, []string{"*", "-deployment"}) {
		t.Errorf("Generic = %+v", s.Generic)
	}
	if s.Shared.Cloud.ConfigureRoutes || s.Shared.Cloud.ClusterCIDR != "10.244.0.0/16" {
		t.Errorf("Cloud = %+v", s.Shared.Cloud)
	}
	for flag, want := range map[string]string{"concurrent-deployment-syncs": "10", "service-cluster-ip-range": "10.0.0.0/8,fd00::/108", "concurrent-job-syncs": "8"} {
		if got := s.flag(flag).Value.String(); got != want {
			t.Errorf("--%s=%s, want %s", flag, got, want)
		}
	}
	if err := validate(s); err != nil {
		t.Error(err)
	}
	checkLines(t, strings.Join(s.Warnings(), "\n"), [][]string{
		{"f.yaml:15: GarbageCollectorController.GCIgnoredResources has no effect"}, {"--concurrent-job-syncs=8", "no effect"}, {"--service-cluster-ip-range"}})
}

func TestConfigProblemsHaveLines(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		want [][]string
	}{
		"unknown fields": {header + "Generic:\n  Controler: []\n  LeaderElection:\n    LeaderElect: true\nnamespaceController: {}\nX: 1\n", [][]string{
			{"f.yaml:4: unknown field Generic.Controler; did you mean Controllers?"},
			{"f.yaml:6: unknown field Generic.LeaderElection.LeaderElect; did you mean leaderElect?"},
			{"f.yaml:7: unknown field namespaceController; did you mean NamespaceController?"},
			{"f.yaml:8: unknown field X"},
		}},
		"wrong types": {header + strings.Join([]string{
			"Generic:",
			"  Controllers: all",
			"  ControllerStartInterval: 5",
			"  MinResyncPeriod: soon",
			"  ClientConnection: {qps: fast, burst: 1.5, kubeconfig: 7}",
			"  LeaderElection: {leaderElect: 1}",
			"DeploymentController: [1]",
			"JobController: {ConcurrentJobSyncs: 3000000000}",
			"NodeLifecycleController: {NodeEvictionRate: {}}",
			"GarbageCollectorController: {GCIgnoredResources: [{Grup: x}, 3], EnableGarbageCollector: []}",
		}, "\n"), [][]string{
			{"f.yaml:4: Generic.Controllers must be a list"},
			{"f.yaml:5: Generic.ControllerStartInterval must be a duration such as 10s, got 5"},
			{`f.yaml:6: Generic.MinResyncPeriod must be a duration such as 10s, got "soon"`},
			{`f.yaml:7: Generic.ClientConnection.qps must be a number, got "fast"`},
			{"f.yaml:7: Generic.ClientConnection.burst must be a whole number of 32 bits, got 1.5"},
			{"f.yaml:7: Generic.ClientConnection.kubeconfig must be a string, got 7"},
			{"f.yaml:8: Generic.LeaderElection.leaderElect must be true or false, got 1"},
			{"f.yaml:9: DeploymentController must be an object"},
			{"f.yaml:10: JobController.ConcurrentJobSyncs must be a whole number of 32 bits, got 3000000000"},
			{"f.yaml:11: NodeLifecycleController.NodeEvictionRate must be a number, got an object"},
			{"f.yaml:12: unknown field GarbageCollectorController.GCIgnoredResources[0].Grup; did you mean Group?"},
			{"f.yaml:12: GarbageCollectorController.GCIgnoredResources[1] must be an object"},
			{"f.yaml:12: GarbageCollectorController.EnableGarbageCollector must be true or false, got a list"},
		}},
		"items":             {header + "Generic:\n  Controllers:\n  - a\n  - 3\n", [][]string{{"f.yaml:6: Generic.Controllers[1] must be a string, got 3"}}},
		"a number too wide": {header + "Generic:\n  ClientConnection: {qps: 1e99}\n", [][]string{{"f.yaml:4: Generic.ClientConnection.qps must be a number, as --kube-api-qps", `"1e+99"`}}},
		"a field twice":     {header + "Generic: {}\nGeneric: {}\n", [][]string{{"f.yaml:4: Generic is already set in line 3"}}},
		"version and kind":  {"apiVersion: v1\nkind: Pod\nX: 1\n", [][]string{{"f.yaml:1: apiVersion must be kubecontrollermanager", `"v1"`}, {"f.yaml:2: kind must be KubeControllerManagerConfiguration", `"Pod"`}}},
		"no version":        {"kind: KubeControllerManagerConfiguration\n", [][]string{{"f.yaml:1: apiVersion is missing"}}},
		"empty":             {"", [][]string{{"must hold a KubeControllerManagerConfiguration"}}},
		"a list":            {"- a\n", [][]string{{"must hold a KubeControllerManagerConfiguration"}}},
		"no YAML":           {header + "Generic: {\n", [][]string{{"f.yaml: yaml: line"}}},
		"two documents":     {header + "---\n" + header, [][]string{{"one document"}}},
		"broken second":     {header + "---\n{", [][]string{{"f.yaml: yaml:"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withConfig(t, tc.data)
			checkLines(t, text(err), tc.want)
		})
	}
}

func TestConfigFieldsWithoutEffectWarn(t *testing.T) {
	s, err := withConfig(t, header+"Generic:\n  Port: 0\n  Address: 127.0.0.1\nNodeLifecycleController:\n  PodEvictionTimeout: 5m\nDeprecatedController: {}\nJobController: null\n")
	if err != nil {
		t.Fatal(err)
	}
	checkLines(t, strings.Join(s.Warnings(), "\n"), [][]string{{"f.yaml:5: Generic.Address has no effect"}, {"f.yaml:7: NodeLifecycleController.PodEvictionTimeout"}})
}

// TestWhatConfigzSaysOfFixedSettingsIsNoNews: upstream's page, stored as a file, has them as well.
func TestWhatConfigzSaysOfFixedSettingsIsNoNews(t *testing.T) {
	s, err := withConfig(t, header+"Generic:\n  Address: 0.0.0.0\nPersistentVolumeBinderController:\n  VolumeConfiguration:\n    PersistentVolumeRecyclerConfiguration:\n      MaximumRetry: 3\n")
	if err != nil {
		t.Fatal(err)
	}
	checkLines(t, strings.Join(s.Warnings(), "\n"), nil)
	c := asJSON(t, s.Configz())
	for _, want := range []string{`"Address":"0.0.0.0"`, `"MaximumRetry":3`} {
		if !strings.Contains(strings.ReplaceAll(c, ": ", ":"), want) {
			t.Errorf("configz lacks %s", want)
		}
	}
}

func TestConfigIsReadByComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(path, []byte(`{"kind":"KubeControllerManagerConfiguration","apiVersion":"kubecontrollermanager.config.k8s.io/v1alpha1","PodGCController":{"TerminatedPodGCThreshold":7}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustParse(t, "--config="+path)
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	if got := s.flag("terminated-pod-gc-threshold").Value.String(); got != "7" {
		t.Errorf("--terminated-pod-gc-threshold=%s, want 7", got)
	}
	if err := mustParse(t, "--config=/nowhere").Complete(); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("got %v", err)
	}
	if err := mustParse(t).Complete(); err != nil {
		t.Error(err)
	}
}

// TestConfigFieldTable checks that every pair of the table exists on both sides, and that each field of the
// configuration type is in it or among those that are known to have no flag.
func TestConfigFieldTable(t *testing.T) {
	s := mustParse(t)
	flagless := map[string]bool{
		"APIVersion": true, "Kind": true, "Generic.Port": true, "Generic.Address": true, "Generic.ClientConnection.AcceptContentTypes": true,
		"Generic.LeaderMigration.APIVersion": true, "Generic.LeaderMigration.Kind": true, "Generic.LeaderMigration.LeaderName": true,
		"Generic.LeaderMigration.ResourceLock": true, "Generic.LeaderMigration.ControllerLeaders": true,
		"GarbageCollectorController.GCIgnoredResources": true, "NodeLifecycleController.PodEvictionTimeout": true,
		"ServiceController.ConcurrentServiceSyncs":                                                                true,
		"PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MaximumRetry": true,
	}
	paired := map[string]bool{}
	for _, f := range configFields() {
		paired[f.path] = true
		if f.second != "" {
			paired[f.second] = true
		}
		if s.flag(f.flag) == nil {
			t.Errorf("%s: there is no --%s", f.path, f.flag)
		}
	}
	visitLeaves(reflect.TypeFor[kcmconfigv1alpha1.KubeControllerManagerConfiguration](), "", func(path string) {
		if paired[path] == flagless[path] {
			t.Errorf("%s: has a flag = %t, known to have none = %t", path, paired[path], flagless[path])
		}
		delete(paired, path)
	})
	for path := range paired {
		t.Errorf("%s is not a field", path)
	}
}

func visitLeaves(typ reflect.Type, path string, f func(string)) {
	for _, field := range reflect.VisibleFields(typ) {
		switch {
		case field.Anonymous:
		case field.Type.Kind() == reflect.Struct && field.Type.Name() != "Duration":
			visitLeaves(field.Type, path+field.Name+".", f)
		default:
			f(path + field.Name)
		}
	}
}

func TestConfigzIsAConfigFile(t *testing.T) {
	first := mustParse(t, "--kube-api-qps=7.5", "--controllers=*,-deployment,-nope", "--concurrent-deployment-syncs=9", "--service-cluster-ip-range=10.0.0.0/8,fd00::/108",
		"--horizontal-pod-autoscaler-tolerance=0.25", "--leader-elect=false", "--enable-garbage-collector=false", "--min-resync-period=1h", "--cluster-signing-cert-file=x")
	data, err := yaml.Marshal(first.Configz())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- -deployment-controller\n", "qps: 7.5", "SecondaryServiceCIDR: fd00::/108", "HorizontalPodAutoscalerTolerance: 0.25", "Resource: events"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is not in\n%s", want, data)
		}
	}
	second, err := withConfig(t, string(data))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := asJSON(t, first.Configz()), asJSON(t, second.Configz()); a != b {
		t.Errorf("got  %s\nwant %s", b, a)
	}
	// Only the values that Configz renders by other names differ between the flags.
	second.visitFlags(func(f *pflag.Flag) {
		if other := first.flag(f.Name); f.Name != "controllers" && f.Value.String() != other.Value.String() {
			t.Errorf("--%s=%s, want %s", f.Name, f.Value, other.Value)
		}
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
