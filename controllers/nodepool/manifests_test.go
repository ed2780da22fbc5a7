package nodepool

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The role that is shipped grants what the controller declares, neither less nor more.
func TestTheShippedRoleIsWhatTheControllerDeclares(t *testing.T) {
	data, err := os.ReadFile("../../manifests/nodepool/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, doc := range bytes.Split(data, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(doc, &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" || role.Name != "orrery:nodepool-controller" {
			continue
		}
		found = true
		if !reflect.DeepEqual(role.Rules, rules()) {
			t.Errorf("the role grants\n%+v\nand the controller declares\n%+v", role.Rules, rules())
		}
	}
	if !found {
		t.Error("the role is not in the manifest")
	}
}
