package app

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"orrery/kit"
	"orrery/kit/kittest"
	"orrery/kit/manager"
	"orrery/options"
)

// TestWhatMigratesIsSplitOff: in earnest only, as a dry run keeps away from the leases of others.
func TestWhatMigratesIsSplitOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "migration.yaml")
	const data = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\nleaderName: second\n" +
		"controllerLeaders:\n- {name: moving, component: kube-controller-manager}\n"
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		migrate, dry bool
		stay         int
	}{
		"none": {stay: 2}, "in earnest": {migrate: true, stay: 1}, "dry run": {migrate: true, dry: true, stay: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := manager.New(kittest.New(t).Config("orrery"), manager.Options{
					Name: "test", Election: manager.Election{Enabled: true, Namespace: "kube-system"},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				s := options.NewCMServer()
				s.Controllers = []kit.Descriptor{{Name: "staying"}, {Name: "moving"}}
				s.LeaderMigration.Enabled, s.LeaderMigration.ConfigFile, s.DryRun = tc.migrate, file, tc.dry
				if err := s.Validate(s.KnownControllers(), nil); err != nil {
					t.Fatal(err)
				}
				d := &daemon{options: s, manager: m}
				stay, err := d.split()
				if err != nil || len(stay) != tc.stay || stay[0].Name != "staying" || (d.migration != nil) != (tc.stay == 1) {
					t.Errorf("%v stay, further lease %v: %v", stay, d.migration, err)
				}
				if l := m.Leadership().Further; len(l) != 2-tc.stay || tc.stay == 1 && l[0].Lease != "kube-system/second" {
					t.Errorf("leases %+v", l)
				}
			})
		})
	}
}
