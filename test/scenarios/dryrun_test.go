package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
)

// rehearsed is what a dry run says that it would write.
type rehearsed struct {
	Writes []struct {
		Loop, Verb, Resource, Object string
		Count                        int
	}
	Settled int
}

func (e *env) rehearsed(t *testing.T, p *cluster.Process) (rehearsed, error) {
	var o struct{ DryRun *rehearsed }
	out, err := e.ask(t, p, "status", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &o)
	}
	if err == nil && o.DryRun == nil {
		err = errors.New("it does not say that it is a dry run")
	}
	if err != nil {
		return rehearsed{}, fmt.Errorf("%w\n%.500s", err, out)
	}
	return *o.DryRun, nil
}

// nothingOpen returns an error if the dry run would write anything.
func (e *env) nothingOpen(t *testing.T, p *cluster.Process) error {
	r, err := e.rehearsed(t, p)
	if err == nil && len(r.Writes) > 0 {
		err = fmt.Errorf("it would write %+v", r.Writes)
	}
	return err
}

// TestDryRun runs the daemon beside kube-controller-manager, as before a migration: it writes nothing, reports nothing that
// the other leaves undone, and reports what it would write after the other has stopped.
func TestDryRun(t *testing.T) {
	t.Parallel()
	own(t, "changes the controller manager")
	e := start(t, cluster.Options{Nodes: 2, Untaint: true, ControllerManager: cluster.Upstream, CMArgs: append([]string{"-v=2"}, raised...)})
	if err := e.WaitUsable(timeout(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	upstream, leader := e.ControllerManagers()[0], e.holder(t)
	dry := e.manage(t, cluster.Orrery, "--dry-run")
	ns := e.namespace(t, "rehearsed")
	e.rollOut(t, ns, "web", 4)
	e.kubectl(t, "-n", ns, "set", "image", "deployment/web", "c=fake:2")
	eventually(t, "the rollout by the other", func() error { return e.rolledOut(t, ns, "web", 4) })
	eventually(t, "the dry run has looked at it", func() error {
		out, err := e.ask(t, dry, "explain", "deployment", ns+"/web")
		if err == nil && !strings.Contains(out, "deployment-controller reconciled") {
			err = errors.New(out)
		}
		return err
	})
	eventually(t, "nothing is left to write", func() error { return e.nothingOpen(t, dry) })
	if now := e.holder(t); now != leader {
		t.Errorf("the lease went from %s to %s", leader, now)
	}

	if err := upstream.Stop(timeout(t, patience)); err != nil {
		t.Fatal(err)
	}
	// It does not release its lease.
	if err := e.Client().CoordinationV1().Leases("kube-system").Delete(t.Context(), "kube-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "-n", ns, "scale", "deployment/web", "--replicas=6")
	eventually(t, "it says what it would do now", func() error {
		r, err := e.rehearsed(t, dry)
		if err != nil {
			return err
		}
		for _, w := range r.Writes {
			if w.Loop == "deployment-controller" && strings.HasPrefix(w.Resource, "replicasets.apps") && strings.HasPrefix(w.Object, ns+"/web-") {
				return nil
			}
		}
		return fmt.Errorf("it would write %+v", r.Writes)
	})
	e.manage(t, cluster.Upstream, raised...)
	eventually(t, "the other has done it", func() error { return e.rolledOut(t, ns, "web", 6) })
	eventually(t, "nothing is left to write again", func() error { return e.nothingOpen(t, dry) })

	rehearsals := 0
	for _, a := range e.audit(t, func(a auditEvent) bool {
		return a.byOrrery() && a.Verb != "get" && a.Verb != "list" && a.Verb != "watch"
	}) {
		switch {
		case strings.Contains(a.URI, "dryRun=All"):
			rehearsals++
		case a.Object.Subresource == "token":
		case a.Object.Resource == "leases" && (a.Verb == "create" || a.Object.Name == "kube-controller-manager-dry-run"):
		default:
			t.Errorf("stored in a dry run: %s", a)
		}
	}
	if rehearsals == 0 {
		t.Error("the server was asked to validate nothing")
	}
}
