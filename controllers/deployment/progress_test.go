package deployment

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func stuck(deadline int32, recorded appsv1.DeploymentStatus) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2},
		Spec:       appsv1.DeploymentSpec{ProgressDeadlineSeconds: &deadline},
		Status:     recorded,
	}
}

func progressingSince(ago time.Duration, status corev1.ConditionStatus, reason string) []appsv1.DeploymentCondition {
	return []appsv1.DeploymentCondition{condition(appsv1.DeploymentProgressing, status, reason, "", noon.Add(-ago))}
}

func TestProgress(t *testing.T) {
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	half := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 5, UpdatedReplicas: 2, ReadyReplicas: 4, AvailableReplicas: 4}
	full := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 4, ReadyReplicas: 4, AvailableReplicas: 4}
	for _, c := range []struct {
		name      string
		deadline  int32
		was, is   appsv1.DeploymentStatus
		condition []appsv1.DeploymentCondition
		reason    string // empty: no condition
		check     time.Duration
	}{
		{"complete", 10, half, full, progressingSince(time.Hour, yes, reasonUpdated), reasonAvailable, 0},
		{"complete after all", 10, half, full, progressingSince(time.Hour, no, reasonTimedOut), reasonAvailable, 0},
		{"more of the new", 10, appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 1, ReadyReplicas: 4, AvailableReplicas: 4}, half,
			progressingSince(time.Hour, yes, reasonCreated), reasonUpdated, 11 * time.Second},
		{"fewer of the old", 10, appsv1.DeploymentStatus{Replicas: 6, UpdatedReplicas: 2, ReadyReplicas: 4, AvailableReplicas: 4}, half,
			progressingSince(time.Hour, yes, reasonCreated), reasonUpdated, 11 * time.Second},
		{"more available, after a missed deadline", 10, appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 2, ReadyReplicas: 4}, half,
			progressingSince(time.Hour, no, reasonTimedOut), reasonUpdated, 11 * time.Second},
		{"no progress yet", 10, half, half, progressingSince(4*time.Second, yes, reasonUpdated), reasonUpdated, 7 * time.Second},
		{"at the deadline", 10, half, half, progressingSince(10*time.Second, yes, reasonUpdated), reasonUpdated, time.Second},
		{"after it", 10, half, half, progressingSince(11*time.Second, yes, reasonUpdated), reasonTimedOut, 0},
		{"after it, the set could not be made", 10, half, half, progressingSince(11*time.Second, no, reasonCreateError), reasonTimedOut, 0},
		{"after it, resumed", 10, half, half, progressingSince(11*time.Second, unknown, reasonResumed), reasonTimedOut, 0},
		{"missed before", 10, half, half, progressingSince(time.Hour, no, reasonTimedOut), reasonTimedOut, 0},
		{"the last rollout ended long ago", 10, half, half, progressingSince(time.Hour, yes, reasonAvailable), reasonAvailable, 0},
		{"nothing is under way", 10, full, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 4, ReadyReplicas: 3, AvailableReplicas: 3},
			progressingSince(time.Hour, yes, reasonAvailable), reasonAvailable, 0},
		{"nothing is known", 10, half, half, nil, "", 0},
		{"nobody asks", 1<<31 - 1, half, full, progressingSince(time.Hour, yes, reasonUpdated), "", 0},
	} {
		c.is.Conditions = c.condition
		list, check := progressed(stuck(c.deadline, c.was), c.is, 4, set("n", 4, 4), noon)
		got := ""
		if p := findCondition(list, appsv1.DeploymentProgressing); p != nil {
			got = p.Reason
		}
		if got != c.reason || check != c.check {
			t.Errorf("%s: reason %q and a look in %v, want %q in %v", c.name, got, check, c.reason, c.check)
		}
	}
}

func TestProgressRenewsTheConditionsTime(t *testing.T) {
	was := appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 1}
	is := appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 2, Conditions: progressingSince(time.Minute, corev1.ConditionTrue, reasonUpdated)}
	list, _ := progressed(stuck(10, was), is, 4, nil, noon)
	c := findCondition(list, appsv1.DeploymentProgressing)
	if !c.LastUpdateTime.Time.Equal(noon) || !c.LastTransitionTime.Time.Equal(noon.Add(-time.Minute)) {
		t.Errorf("updated %v, in this state since %v", c.LastUpdateTime, c.LastTransitionTime)
	}
	if c.Message != `Deployment "web" is progressing.` {
		t.Errorf("message %q", c.Message)
	}
	if !is.Conditions[0].LastUpdateTime.Time.Equal(noon.Add(-time.Minute)) {
		t.Error("the condition read was changed")
	}
}

func TestMessagesNameTheReplicaSet(t *testing.T) {
	list, _ := progressed(stuck(10, appsv1.DeploymentStatus{}), appsv1.DeploymentStatus{
		Conditions: progressingSince(time.Minute, corev1.ConditionTrue, reasonCreated),
	}, 4, set("n", 4, 0), noon)
	c := findCondition(list, appsv1.DeploymentProgressing)
	if c.Status != corev1.ConditionFalse || c.Message != `ReplicaSet "n" has timed out progressing.` {
		t.Errorf("%s: %s", c.Status, c.Message)
	}
}

// TestTheEndOfAFormerRolloutEndsNoOther: the deadline applies to a rollout even if its beginning was not recorded, because
// the process ended before it wrote the status. If there is no rollout, nothing is written just to correct a name.
func TestTheEndOfAFormerRolloutEndsNoOther(t *testing.T) {
	before := progressingSince(time.Hour, corev1.ConditionTrue, reasonAvailable)
	before[0].Message = `ReplicaSet "o" has successfully progressed.`
	made := appsv1.DeploymentStatus{ObservedGeneration: 9, Replicas: 4, UpdatedReplicas: 4, Conditions: before}
	full := made
	full.AvailableReplicas, full.ReadyReplicas = 4, 4
	for _, c := range []struct {
		name, current, want string
		was, is             appsv1.DeploymentStatus
	}{
		{"begun by another process", "n", `ReplicaSetUpdated: ReplicaSet "n" is progressing.`, appsv1.DeploymentStatus{}, made},
		{"begun and ended by others", "n", `NewReplicaSetAvailable: ReplicaSet "n" has successfully progressed.`, appsv1.DeploymentStatus{}, full},
		{"at rest", "n", "NewReplicaSetAvailable: " + before[0].Message, full, full},
		{"pods that come and go", "o", "NewReplicaSetAvailable: " + before[0].Message, made, full},
	} {
		list, _ := progressed(stuck(10, c.was), c.is, 4, set(c.current, 4, 0), noon)
		if p := findCondition(list, appsv1.DeploymentProgressing); p.Reason+": "+p.Message != c.want {
			t.Errorf("%s: %s: %s, want %s", c.name, p.Reason, p.Message, c.want)
		}
	}
}

func TestPauses(t *testing.T) {
	for _, c := range []struct {
		name   string
		paused bool
		had    string
		want   string
	}{
		{"paused", true, reasonUpdated, reasonPaused},
		{"paused from the start", true, "", reasonPaused},
		{"still paused", true, reasonPaused, reasonPaused},
		{"resumed", false, reasonPaused, reasonResumed},
		{"not paused at all", false, reasonUpdated, reasonUpdated},
		{"paused after a missed deadline", true, reasonTimedOut, reasonTimedOut},
	} {
		d := stuck(10, appsv1.DeploymentStatus{})
		d.Spec.Paused = c.paused
		var list []appsv1.DeploymentCondition
		if c.had != "" {
			list = progressingSince(time.Minute, corev1.ConditionUnknown, c.had)
		}
		got := findCondition(paused(d, list, noon), appsv1.DeploymentProgressing)
		if got == nil || got.Reason != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
	d := stuck(1<<31-1, appsv1.DeploymentStatus{})
	d.Spec.Paused = true
	if got := paused(d, nil, noon); got != nil {
		t.Errorf("without a deadline: %+v", got)
	}
}

func TestFailuresOfTheCurrentSetComeFirst(t *testing.T) {
	fail := func(name, message string) *appsv1.ReplicaSet {
		rs := set(name, 1, 0)
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
			LastTransitionTime: metav1.NewTime(noon),
		}}
		return rs
	}
	a, b, n := fail("a", "first"), fail("b", "second"), fail("n", "current")
	for _, c := range []struct {
		current *appsv1.ReplicaSet
		all     []*appsv1.ReplicaSet
		want    string
	}{
		{n, []*appsv1.ReplicaSet{a, b, n}, "current"},
		{set("n", 1, 1), []*appsv1.ReplicaSet{a, b, set("n", 1, 1)}, "first"},
		{nil, []*appsv1.ReplicaSet{set("a", 1, 1), b}, "second"},
	} {
		got := findCondition(withFailure(nil, c.current, c.all), appsv1.DeploymentReplicaFailure)
		if got == nil || got.Message != c.want || got.Reason != "FailedCreate" || !got.LastUpdateTime.Time.Equal(noon) {
			t.Errorf("got %+v, want %s", got, c.want)
		}
	}
	had := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"}}
	if got := withFailure(had, nil, []*appsv1.ReplicaSet{set("a", 1, 1)}); len(got) != 0 || len(had) != 1 {
		t.Errorf("a failure that has passed: %+v of %+v", got, had)
	}
}

func TestCounted(t *testing.T) {
	a, n := set("a", 3, 4), set("n", 2, 1)
	a.Status.Replicas, a.Status.TerminatingReplicas = 4, new(int32(2))
	n.Status.TerminatingReplicas = new(int32(1))
	was := appsv1.DeploymentStatus{CollisionCount: new(int32(3))}
	got := counted(was, 7, bounds{desired: 5, unavailable: 1}, n, []*appsv1.ReplicaSet{a, n}, true, noon)
	if got.ObservedGeneration != 7 || got.Replicas != 6 || got.UpdatedReplicas != 2 || got.ReadyReplicas != 5 ||
		got.AvailableReplicas != 5 || got.UnavailableReplicas != 0 || *got.TerminatingReplicas != 3 || *got.CollisionCount != 3 {
		t.Errorf("got %+v", got)
	}
	if c := findCondition(got.Conditions, appsv1.DeploymentAvailable); c == nil || c.Status != corev1.ConditionTrue || c.Reason != "MinimumReplicasAvailable" {
		t.Errorf("available: %+v", c)
	}
	got = counted(was, 7, bounds{desired: 7, unavailable: 1}, nil, []*appsv1.ReplicaSet{set("a", 7, 5)}, false, noon)
	if c := findCondition(got.Conditions, appsv1.DeploymentAvailable); c.Status != corev1.ConditionFalse || c.Reason != "MinimumReplicasUnavailable" {
		t.Errorf("available: %+v", c)
	}
	if got.UpdatedReplicas != 0 || got.UnavailableReplicas != 2 || got.TerminatingReplicas != nil {
		t.Errorf("got %+v", got)
	}
}

func TestTerminatingIsUnknownWhereOneSetDoesNotTell(t *testing.T) {
	tells, fresh, silent := set("a", 1, 1), set("b", 1, 0), set("c", 1, 1)
	tells.Status.TerminatingReplicas = new(int32(2))
	silent.Status.ObservedGeneration = 1
	if got := terminating([]*appsv1.ReplicaSet{tells, fresh}); got == nil || *got != 2 {
		t.Errorf("got %v, want 2", got)
	}
	if got := terminating([]*appsv1.ReplicaSet{tells, silent}); got != nil {
		t.Errorf("got %d, want nothing", *got)
	}
}
