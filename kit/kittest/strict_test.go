package kittest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// soft is a test that notes its failures instead of failing.
type soft struct {
	testing.TB

	mu       sync.Mutex // guards the fields below
	errs     []string
	cleanups []func()
}

func (s *soft) Helper()             {}
func (s *soft) Logf(string, ...any) {}

func (s *soft) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Sprintf(format, args...))
}

func (s *soft) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// failures ends the test and returns what it failed for.
func (s *soft) failures() string {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	return strings.Join(s.errs, "\n")
}

func TestMisdeedsFailTheTest(t *testing.T) {
	update := rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	for _, c := range []struct {
		name  string
		rules []rbacv1.PolicyRule
		deed  func(ctx context.Context, cc kit.ControllerContext, cm *corev1.ConfigMap) error
		want  string // empty: no misdeed
	}{
		{"nothing", nil, func(context.Context, kit.ControllerContext, *corev1.ConfigMap) error { return nil }, ""},
		{"changing a cached object", nil, func(_ context.Context, _ kit.ControllerContext, cm *corev1.ConfigMap) error {
			cm.Data = map[string]string{"changed": "in place"}
			return nil
		}, "has been changed in place"},
		{"a panic", nil, func(context.Context, kit.ControllerContext, *corev1.ConfigMap) error { panic("boom") }, "Caught a panic"},
		{"a write that is granted", []rbacv1.PolicyRule{update}, func(ctx context.Context, cc kit.ControllerContext, cm *corev1.ConfigMap) error {
			_, err := client.Update(ctx, cc.Client, cm)
			return err
		}, ""},
		{"a write that is not", []rbacv1.PolicyRule{update}, func(ctx context.Context, cc kit.ControllerContext, cm *corev1.ConfigMap) error {
			return kit.Terminal(client.Delete(ctx, cc.Client, cm))
		}, "may not delete v1/configmaps default/a"},
		{"a live read that is not", []rbacv1.PolicyRule{}, func(ctx context.Context, cc kit.ControllerContext, cm *corev1.ConfigMap) error {
			_, err := client.Get[corev1.ConfigMap](ctx, cc.Live, client.KeyOf(cm))
			return kit.Terminal(err)
		}, "may not get v1/configmaps default/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &soft{TB: t}
				api := kittest.New(s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
				done := false
				api.RunIn(s, api.Context("deed", c.rules...), func(cc kit.ControllerContext) (bool, error) {
					maps := kit.Store[corev1.ConfigMap](cc)
					return true, kit.NewController(cc, kit.Func[kit.Key](func(ctx context.Context, key kit.Key) (kit.Result, error) {
						cm, _ := maps.Get(key)
						if done {
							return kit.Done, nil
						}
						done = true
						return kit.Done, c.deed(ctx, cc, cm)
					})).Watch(kit.For[corev1.ConfigMap]()).Complete()
				})
				api.Settle()
				got := s.failures()
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("failures: %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestRulesGrantWhatTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rule rbacv1.PolicyRule
			want bool // grants a status update of the pod p
		}{
			{rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"pods/status"}}, true},
			{rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, true},
			{rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"*/status"}}, true},
			{rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"pods/status"}, ResourceNames: []string{"p"}}, true},
			{rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"pods/status"}, ResourceNames: []string{"q"}}, false},
			{rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"pods"}}, false},
			{rbacv1.PolicyRule{Verbs: []string{"patch"}, APIGroups: []string{""}, Resources: []string{"pods/status"}}, false},
			{rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{"apps"}, Resources: []string{"pods/status"}}, false},
		} {
			s := &soft{TB: t}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
			api := kittest.New(s, pod)
			_, err := client.UpdateStatus(t.Context(), api.Client("x", c.rule), pod)
			if got := s.failures() == "" && err == nil; got != c.want {
				t.Errorf("%v: %v, want %v", c.rule, got, c.want)
			}
		}
	})
}
