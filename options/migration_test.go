package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery/kit"
)

// withMigration returns settings with a LeaderMigrationConfiguration of that version and content.
func withMigration(t *testing.T, version, data string, args ...string) *CMServer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "migration.yaml")
	data = "apiVersion: controllermanager.config.k8s.io/" + version + "\nkind: LeaderMigrationConfiguration\n" + data
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return mustParse(t, append(args, "--enable-leader-migration", "--leader-migration-config="+path)...)
}

func TestWhatRunsUnderTheMigrationLease(t *testing.T) {
	s := withMigration(t, "v1", `leaderName: x
controllerLeaders:
- {name: route-controller, component: "*"}
- {name: job-controller, component: "*"}
- {name: cronjob-controller, component: kube-controller-manager}
- {name: daemonset-controller, component: cloud-controller-manager}
- {name: namespace-controller, component: "*"}
- {name: namespace-controller, component: someone-else}
- {name: serviceaccount-token-controller, component: someone-else}
- {name: deployment, component: "*"}
`)
	if err := validate(s); err != nil {
		t.Fatal(err)
	}
	m := s.Migration()
	if m == nil || m.LeaseName != "x" {
		t.Fatalf("got %+v", m)
	}
	for name, want := range map[string]bool{
		"job-controller": true, "cronjob-controller": true, "route-controller": true, "daemonset-controller": false,
		"namespace-controller": false, "serviceaccount-token-controller": false, "deployment-controller": false, "replicaset-controller": false,
	} {
		if m.Includes(name) != want {
			t.Errorf("%s included: %t, want %t", name, !want, want)
		}
	}
	for name, want := range map[string]string{
		"job-controller": "", "daemonset-controller": "leaves it to cloud-controller-manager", "namespace-controller": "leaves it to someone-else",
		"serviceaccount-token-controller": "", "replicaset-controller": "",
	} {
		if got := s.DisabledReason(kit.Descriptor{Name: name}); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	checkLines(t, strings.Join(s.Warnings(), "\n"), [][]string{
		{"serviceaccount-token-controller", "stays"}, {"deployment-controller", `"deployment"`},
	})
}

func TestTheDefaultMigrationIsThatOfUpstream(t *testing.T) {
	s := mustParse(t, "--enable-leader-migration")
	if err := validate(s); err != nil || len(s.Warnings()) > 0 {
		t.Fatal(err, s.Warnings())
	}
	m := s.Migration()
	if m.LeaseName != "cloud-provider-extraction-migration" || !m.Includes("route-controller") || !m.Includes("service-controller") ||
		!m.Includes("cloud-node-lifecycle-controller") || m.Includes("node-ipam-controller") {
		t.Errorf("got %+v", m)
	}
}

func TestNoMigrationIsNone(t *testing.T) {
	for args, warnings := range map[string][][]string{
		"": nil,
		"--enable-leader-migration --leader-elect=false": {{"--enable-leader-migration=true has no effect"}},
		"--leader-migration-config=/nowhere":             {{"--leader-migration-config=/nowhere has no effect"}},
	} {
		s := mustParse(t, strings.Fields(args)...)
		if err := validate(s); err != nil || s.Migration() != nil || s.Migration().Includes("job-controller") {
			t.Errorf("%q: %v, %v", args, err, s.Migration())
		}
		checkLines(t, strings.Join(s.Warnings(), "\n"), warnings)
	}
}

func TestWhatIsWrongWithAMigration(t *testing.T) {
	for _, tc := range []struct {
		version, data string
		problems      [][]string
	}{
		{"v1", "leaderName: x\n", nil},
		{"v1", "leaderName: x\nresourceLock: leases\n", nil},
		{"v1beta1", "leaderName: x\nresourceLock: leases\ncontrollerLeaders: []\n", nil},
		{"v1alpha1", "leaderName: x\n", [][]string{{"resourceLock must be leases"}}},
		{"v1beta1", "leaderName: x\nresourceLock: endpoints\n", [][]string{{"resourceLock must be leases", `"endpoints"`}}},
		{"v2", "controllerLeaders:\n- name: a\n", [][]string{{"apiVersion and kind"}, {"leaderName must not be empty"}, {"resourceLock"}, {"controllerLeaders[0]"}}},
		{"v1", "leaderName: kube-controller-manager\n", [][]string{{"must not be that of --leader-elect-resource-name"}}},
		{"v1", "leaderName: A_b\n", [][]string{{"name of an object", `"A_b"`}}},
		{"v1", "leaderNam: x\n", [][]string{{"leaderNam"}}},
	} {
		s := withMigration(t, tc.version, tc.data)
		checkLines(t, text(validate(s)), tc.problems)
		if (s.Migration() != nil) != (tc.problems == nil) {
			t.Errorf("%s %q: %+v", tc.version, tc.data, s.Migration())
		}
	}
}

// TestAMigrationIsPartOfTheConfiguration: what /configz shows can be given to --config.
func TestAMigrationIsPartOfTheConfiguration(t *testing.T) {
	first := withMigration(t, "v1", "leaderName: x\ncontrollerLeaders:\n- {name: job-controller, component: \"*\"}\n- {name: a, component: b}\n")
	if err := validate(first); err != nil {
		t.Fatal(err)
	}
	rendered := asJSON(t, first.Configz())
	second, err := withConfig(t, rendered)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(second); err != nil || len(second.notes) > 0 {
		t.Fatal(err, second.notes)
	}
	if m := second.Migration(); m == nil || m.LeaseName != "x" || !m.Includes("job-controller") || m.elsewhere("a") != "b" {
		t.Errorf("got %+v of %s", m, rendered)
	}
	broken, err := withConfig(t, strings.Replace(rendered, `"leaderName":"x"`, `"leaderName":""`, 1))
	if err != nil {
		t.Fatal(err)
	}
	checkLines(t, text(validate(broken)), [][]string{{"--config: Generic.LeaderMigration", "leaderName must not be empty"}})
}
