package controllers_test

import (
	"encoding/json"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"orrery/controllers"
	"orrery/options"
)

// TestNoControllerNeedsMoreThanItsBootstrapRole compares the rules that each controller states, which its tests hold it
// to, with what the API server grants its service account: testdata/bootstrap-roles.json lists the rules of the
// system:controller ClusterRoles by service account, as a 1.37 server makes them.
func TestNoControllerNeedsMoreThanItsBootstrapRole(t *testing.T) {
	data, err := os.ReadFile("testdata/bootstrap-roles.json")
	if err != nil {
		t.Fatal(err)
	}
	var granted map[string][]rbacv1.PolicyRule
	if err := json.Unmarshal(data, &granted); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, d := range controllers.All(&options.Shared{}) {
		if d.ServiceAccount == "" || d.OffByDefault && granted[d.ServiceAccount] == nil {
			continue // the first has no identity of its own; one that the server does not know brings its role along
		}
		if len(d.RBAC) == 0 || len(granted[d.ServiceAccount]) == 0 {
			t.Errorf("%s states %d rules, and %s has %d", d.Name, len(d.RBAC), d.ServiceAccount, len(granted[d.ServiceAccount]))
		}
		checked++
		if ok, missing := validation.Covers(granted[d.ServiceAccount], d.RBAC); !ok {
			t.Errorf("%s asks for more than system:controller:%s grants: %+v", d.Name, d.ServiceAccount, missing)
		}
	}
	if checked < 15 {
		t.Errorf("only %d controllers were compared", checked)
	}
}
