package history

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/internal/claim"
	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// pass is one operation of a controller on its keeper.
type pass func(ctx context.Context, k *Keeper, set *appsv1.StatefulSet) error

// user is a controller that does one pass.
type user struct {
	keeper *Keeper
	do     pass
	err    error
}

func (u *user) Reconcile(ctx context.Context, set *appsv1.StatefulSet) (kit.Result, error) {
	u.err = u.do(ctx, u.keeper, set)
	return kit.Done, kit.Terminal(u.err)
}

// run runs one pass of a controller for the set "web", with an API that holds it and some revisions.
func run(t *testing.T, format Format, setup func(*kittest.API), do pass, revisions ...*appsv1.ControllerRevision) (*kittest.API, error) {
	t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: *owner("web")}
	set.UID = ""
	set.Spec.Template = *readTemplate(t, "plain")
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	api := kittest.New(t)
	api.Create(t, set)
	for _, r := range revisions {
		r.UID, r.ResourceVersion = "", ""
		for i := range r.OwnerReferences {
			if r.OwnerReferences[i].UID == "owner-uid" {
				r.OwnerReferences[i].UID = set.UID
			}
		}
		api.Create(t, r)
	}
	if setup != nil {
		setup(api)
	}
	u := &user{do: do, err: errors.New("not called")}
	sets := rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"get"}}
	api.RunIn(t, api.Context("user", Rule(), sets), func(cc kit.ControllerContext) (bool, error) {
		u.keeper = NewKeeper(cc, format)
		return true, kit.NewController(cc, kit.Objects(kit.Store[appsv1.StatefulSet](cc), u)).Watch(kit.For[appsv1.StatefulSet]()).Complete()
	})
	api.Settle()
	return api, u.err
}

func revision(name string, number int64, labels map[string]string, owner string) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}, Revision: number,
		Data: runtime.RawExtension{Raw: []byte(`{"x":1}`)},
	}
	if owner != "" {
		yes := true
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: types.UID(owner), Controller: &yes}}
	}
	return r
}

func create(collisions int32, got *[]string) pass {
	return func(ctx context.Context, k *Keeper, set *appsv1.StatefulSet) error {
		w := Want(set, &set.Spec.Template)
		data, err := w.Data()
		if err != nil {
			return err
		}
		r := k.New(set, &set.Spec.Template, data, 1, &collisions)
		stored, collisions, err := k.CreateCounting(ctx, w, r, collisions)
		if err == nil {
			*got = []string{stored.Name, stored.Labels[HashLabel], string('0' + rune(collisions))}
		}
		return err
	}
}

func TestClaimTakesWhatTheSelectorMatches(t *testing.T) {
	ours, others := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	for name, c := range map[string]struct {
		format Format
		writes []string
	}{
		"StatefulSets": {StatefulSets(), []string{"patch apps/v1/controllerrevisions default/c-orphan"}},
		"DaemonSets": {DaemonSets(), []string{
			"patch apps/v1/controllerrevisions default/d-unlike", "patch apps/v1/controllerrevisions default/c-orphan"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got string
				api, err := run(t, c.format, nil, func(ctx context.Context, k *Keeper, set *appsv1.StatefulSet) error {
					claimed, err := k.Claim(ctx, set, labels.SelectorFromSet(ours), claim.Live(k.live, set))
					got = names(claimed)
					return err
				}, revision("b-ours", 2, ours, "owner-uid"), revision("c-orphan", 1, ours, ""), revision("a-ours", 3, ours, "owner-uid"),
					revision("d-unlike", 4, others, "owner-uid"), revision("e-unlike", 5, others, ""), revision("f-foreign", 6, ours, "another"))
				if err != nil || got != "c-orphan b-ours a-ours" {
					t.Errorf("claimed %q, %v", got, err)
				}
				if writes := api.Writes(); !slices.Equal(writes, c.writes) {
					t.Errorf("writes %q, want %q", writes, c.writes)
				}
			})
		})
	}
}

func TestAnOwnerThatMayNotAdoptKeepsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := map[string]string{"app": "web"}
		var got string
		api, err := run(t, StatefulSets(), nil, func(ctx context.Context, k *Keeper, set *appsv1.StatefulSet) error {
			claimed, err := k.Claim(ctx, set, labels.SelectorFromSet(ours), func(context.Context) error { return errors.New("it is going") })
			got = names(claimed)
			return err
		}, revision("ours", 2, ours, "owner-uid"), revision("orphan", 1, ours, ""))
		if err == nil || !strings.Contains(err.Error(), "claim revisions for default/web") || got != "ours" || len(api.Writes()) > 0 {
			t.Errorf("claimed %q, %v, after %q", got, err, api.Writes())
		}
	})
}

// kube-controller-manager 1.37.2 made the same name in this place, and left the hash label as it was.
func TestATakenNameIsCountedAndPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		api, err := run(t, StatefulSets(), nil, create(0, &got), revision("web-65c69865ff", 1, nil, ""))
		if want := []string{"web-65c69865fd", "65c69865ff", "1"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("made %q (%v), want %q", got, err, want)
		}
		api.Expect(t, "create apps/v1/controllerrevisions default/web-65c69865fd")
	})
}

func TestCollisionsOfTheStatusAreCountedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		_, err := run(t, StatefulSets(), nil, create(1, &got), revision("web-65c69865fd", 1, nil, ""))
		if err != nil || got[2] != "2" || got[0] == "web-65c69865ff" || got[0] == "web-65c69865fd" {
			t.Errorf("made %q (%v)", got, err)
		}
	})
}

func TestARevisionThatIsThereAlreadyIsNotMadeTwice(t *testing.T) {
	for name, raw := range map[string]func(data string) string{
		"with the same data": func(data string) string { return data },
		"with the same meaning": func(data string) string {
			return strings.Replace(data, `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				there := revision("web-65c69865ff", 1, nil, "another")
				there.Data.Raw = []byte(raw(string(encode(t, readTemplate(t, "plain")))))
				var got []string
				api, err := run(t, StatefulSets(), nil, create(0, &got), there)
				if err != nil || got[0] != "web-65c69865ff" || got[2] != "0" || len(api.Writes()) > 0 {
					t.Errorf("got %q (%v) after %q", got, err, api.Writes())
				}
			})
		})
	}
}

func TestARefusedRevisionIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		_, err := run(t, StatefulSets(), func(api *kittest.API) {
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if r.Verb == "create" {
					return kittest.Refuse(http.StatusForbidden, "quota")
				}
				return nil
			})
		}, create(0, &got))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "create revision default/web-65c69865ff") {
			t.Errorf("error %v", err)
		}
	})
}

func TestRenumberingChangesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := run(t, StatefulSets(), nil, func(ctx context.Context, k *Keeper, set *appsv1.StatefulSet) error {
			r, _ := k.revisions.Get(client.Key{Namespace: "default", Name: "r"})
			if same, err := k.Renumber(ctx, r, 1); err != nil || same != r {
				t.Errorf("the number that it has: %v, %v", same, err)
			}
			_, err := k.Renumber(ctx, r, 4)
			if r.Revision != 1 {
				t.Error("the cached revision was changed")
			}
			return err
		}, revision("r", 1, map[string]string{"a": "b"}, "another"))
		if err != nil {
			t.Fatal(err)
		}
		got := kittest.List[appsv1.ControllerRevision](t, api, "default")[0]
		if got.Revision != 4 || got.Labels["a"] != "b" || string(got.Data.Raw) != `{"x":1}` || len(got.OwnerReferences) != 1 {
			t.Errorf("stored %+v", got)
		}
		api.Expect(t, "update apps/v1/controllerrevisions default/r")
	})
}

func TestTruncatingDeletesTheOldestIdleOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*appsv1.ControllerRevision
		for i, name := range []string{"a", "b", "c", "d"} {
			all = append(all, revision(name, int64(i), nil, "owner-uid"))
		}
		api, err := run(t, StatefulSets(), nil, func(ctx context.Context, k *Keeper, set *appsv1.StatefulSet) error {
			sorted := k.revisions.By(k.byOwner, string(set.UID))
			Sort(sorted)
			gone := *sorted[0]
			gone.Name = "gone"
			return k.Truncate(ctx, append([]*appsv1.ControllerRevision{&gone}, sorted...), 1,
				func(r *appsv1.ControllerRevision) bool { return r.Name == "b" })
		}, all...)
		if err != nil {
			t.Fatal(err)
		}
		api.Pass(time.Second)
		api.Expect(t, "delete apps/v1/controllerrevisions default/a", "delete apps/v1/controllerrevisions default/c")
	})
}
