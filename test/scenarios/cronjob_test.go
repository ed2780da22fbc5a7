package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/hack/localcluster/cluster"
	"orrery/hack/localcluster/faultproxy"
)

// cronStage is a namespace full of CronJobs that have had a slot some minutes ago.
type cronStage struct {
	*env
	ns   string
	slot time.Time // a whole minute
}

// newCronStage makes the stage. There is no Job controller: the test itself writes the status of Jobs.
func newCronStage(t *testing.T, e *env) *cronStage {
	must(e.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cron"}}, metav1.CreateOptions{}))(t)
	return &cronStage{env: e, ns: "cron", slot: time.Now().UTC().Truncate(time.Minute).Add(-2 * time.Minute)}
}

// daily is a schedule that fires at the slot and then not for a day.
func (s *cronStage) daily() string { return fmt.Sprintf("%d %d * * *", s.slot.Minute(), s.slot.Hour()) }

func (s *cronStage) jobName(cronJob string, slot time.Time) string {
	return fmt.Sprintf("%s-%d", cronJob, slot.Unix()/60)
}

// create makes a CronJob in UTC whose last run was some time before the slot.
func (s *cronStage) create(t *testing.T, name, schedule string, last time.Duration, change func(*batchv1.CronJob)) *batchv1.CronJob {
	t.Helper()
	pod := podSpec("fake:1")
	pod.RestartPolicy = corev1.RestartPolicyNever
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule: schedule, TimeZone: new("Etc/UTC"),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}},
		},
	}
	if change != nil {
		change(cj)
	}
	api := s.Client().BatchV1().CronJobs(s.ns)
	cj = must(api.Create(t.Context(), cj, metav1.CreateOptions{}))(t)
	cj.Status.LastScheduleTime = &metav1.Time{Time: s.slot.Add(-last)}
	return must(api.UpdateStatus(t.Context(), cj, metav1.UpdateOptions{}))(t)
}

// job makes a Job of a CronJob that does not run, and that ended in some way at some time after the slot.
func (s *cronStage) job(t *testing.T, cj *batchv1.CronJob, name string, ended batchv1.JobConditionType, after time.Duration) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *cj.Spec.JobTemplate.Spec.DeepCopy()}
	if cj.UID != "" {
		j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cj, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	}
	j = must(s.Client().BatchV1().Jobs(s.ns).Create(t.Context(), j, metav1.CreateOptions{}))(t)
	if ended != "" {
		s.end(t, j.Name, ended, s.slot.Add(after))
	}
	return j
}

// end writes the status of a Job that has ended.
func (s *cronStage) end(t *testing.T, name string, ended batchv1.JobConditionType, when time.Time) {
	t.Helper()
	jobs := s.Client().BatchV1().Jobs(s.ns)
	at := metav1.NewTime(when)
	eventually(t, "status of job "+name, func() error {
		j, err := jobs.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := batchv1.JobSuccessCriteriaMet
		j.Status.StartTime = &at
		if ended == batchv1.JobComplete {
			j.Status.CompletionTime = &at
		} else {
			before = batchv1.JobFailureTarget
		}
		for _, kind := range []batchv1.JobConditionType{before, ended} {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at, LastProbeTime: at})
		}
		_, err = jobs.UpdateStatus(t.Context(), j, metav1.UpdateOptions{})
		return err
	})
}

// active adds Jobs to the active list.
func (s *cronStage) active(t *testing.T, cronJob string, jobs ...*batchv1.Job) {
	t.Helper()
	api := s.Client().BatchV1().CronJobs(s.ns)
	eventually(t, "status of "+cronJob, func() error {
		cj, err := api.Get(t.Context(), cronJob, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{
				Kind: "Job", APIVersion: "batch/v1", Namespace: s.ns, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion,
			})
		}
		_, err = api.UpdateStatus(t.Context(), cj, metav1.UpdateOptions{})
		return err
	})
}

// TestCronJobsAsUpstream gives both managers the same CronJobs, whose slots have all passed, and compares what they do when
// they start: Jobs, statuses and events.
func TestCronJobsAsUpstream(t *testing.T) {
	own(t, "changes the controller manager")
	t.Parallel()
	var mu sync.Mutex
	got := map[cluster.ManagerKind]string{}
	t.Run("play", func(t *testing.T) {
		for _, kind := range []cluster.ManagerKind{cluster.Upstream, cluster.Orrery} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				text := playCronJobs(t, kind)
				mu.Lock()
				defer mu.Unlock()
				got[kind] = text
			})
		}
	})
	want, is := strings.Split(got[cluster.Upstream], "\n"), strings.Split(got[cluster.Orrery], "\n")
	if len(want) < 45 {
		t.Errorf("kube-controller-manager leads to %d facts; most of them are missing", len(want))
	}
	for _, line := range want {
		// It may read a Job that it has just deleted, before its cache shows its own status update.
		if !slices.Contains(is, line) && !strings.HasSuffix(line, "Active job went missing: old-bad") {
			t.Errorf("only with kube-controller-manager: %s", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(want, line) {
			t.Errorf("only with the daemon: %s", line)
		}
	}
}

func playCronJobs(t *testing.T, kind cluster.ManagerKind) string {
	e := start(t, cluster.Options{})
	s := newCronStage(t, e)
	day := 23 * time.Hour
	forbid := func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent }

	s.create(t, "plain", s.daily(), day, func(cj *batchv1.CronJob) {
		zone := must(time.LoadLocation("Asia/Tokyo"))(t)
		there := s.slot.In(zone)
		cj.Spec.TimeZone, cj.Spec.Schedule = new("Asia/Tokyo"), fmt.Sprintf("%d %d * * *", there.Minute(), there.Hour())
		cj.Spec.JobTemplate.Labels = map[string]string{"from": "template"}
		cj.Spec.JobTemplate.Annotations = map[string]string{"also": "kept"}
		cj.Spec.JobTemplate.Spec.BackoffLimit, cj.Spec.JobTemplate.Spec.Parallelism = new(int32(3)), new(int32(2))
	})
	for name, change := range map[string]func(*batchv1.CronJob){
		"allow": nil, "forbid": forbid,
		"replace": func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent },
	} {
		s.active(t, name, s.job(t, s.create(t, name, s.daily(), day, change), name+"-before", "", 0))
	}
	s.create(t, "many", fmt.Sprintf("%d * * * *", s.slot.Minute()), 200*time.Hour, nil)
	s.create(t, "every", "@every 1h", 90*time.Minute, nil)
	s.create(t, "never", "0 0 31 2 *", day, nil)
	s.create(t, "late", s.daily(), day, func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = new(int64(20)) })
	s.create(t, "known", s.daily(), 0, nil)

	taken := s.create(t, "taken", s.daily(), day, nil)
	taken.UID = ""
	s.job(t, taken, s.jobName("taken", s.slot), "", 0)
	again := s.create(t, "again", s.daily(), day, nil)
	s.job(t, again, s.jobName("again", s.slot), "", 0)
	missing := s.create(t, "missing", "@yearly", 0, forbid)
	s.active(t, missing.Name, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "nowhere", UID: "e3b0c442-98fc-4c14-9afb-f4c8996fb924"}})
	s.job(t, s.create(t, "manual", "@yearly", 0, nil), "by-hand", "", 0)
	old := s.create(t, "old", "@yearly", 0, func(cj *batchv1.CronJob) {
		cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = new(int32(2)), new(int32(0))
	})
	for i := range 4 {
		s.job(t, old, fmt.Sprintf("old-good-%d", i), batchv1.JobComplete, time.Duration(-i)*time.Minute)
	}
	s.active(t, "old", s.job(t, old, "old-bad", batchv1.JobFailed, 0))
	done := s.create(t, "done", "@yearly", 0, nil)
	s.active(t, "done", s.job(t, done, "done-0", batchv1.JobComplete, 0), s.job(t, done, "done-1", batchv1.JobFailed, 0))
	e.manage(t, kind, append([]string{"--controllers=*,-job-controller"}, raised...)...)
	return s.settled(t)
}

// settled returns the objects once they no longer change.
func (s *cronStage) settled(t *testing.T) string {
	t.Helper()
	var last string
	since := time.Now()
	eventually(t, "nothing changes any more", func() error {
		text := s.text(t)
		if text != last {
			last, since = text, time.Now()
		}
		if time.Since(since) < 5*time.Second || strings.Count(text, "SuccessfulCreate") < 5 {
			return errors.New("it does")
		}
		return nil
	})
	return last
}

// text formats the CronJobs, their Jobs and the events about them, without anything that depends on the time or on
// generated names.
func (s *cronStage) text(t *testing.T) string {
	t.Helper()
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, cj := range must(s.Client().BatchV1().CronJobs(s.ns).List(t.Context(), metav1.ListOptions{}))(t).Items {
		for i := range cj.Status.Active {
			cj.Status.Active[i].ResourceVersion = ""
		}
		add("CronJob %s %s", cj.Name, plainJSON(t, cj.Status))
	}
	for _, j := range must(s.Client().BatchV1().Jobs(s.ns).List(t.Context(), metav1.ListOptions{}))(t).Items {
		add("Job %s %s %s %s %s", j.Name, plainJSON(t, j.Labels), plainJSON(t, j.Annotations), plainJSON(t, j.OwnerReferences), plainJSON(t, j.Spec))
	}
	for _, e := range must(s.Client().CoreV1().Events(s.ns).List(t.Context(), metav1.ListOptions{}))(t).Items {
		if e.InvolvedObject.Kind == "CronJob" {
			add("Event %s %s %s %s: %s", e.InvolvedObject.Name, e.Source.Component, e.Type, e.Reason, e.Message)
		}
	}
	text := strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "\n")
	text = uidPattern.ReplaceAllString(text, "<uid>")
	text = slotPattern.ReplaceAllStringFunc(text, func(name string) string {
		minute, _ := strconv.ParseInt(name[1:], 10, 64)
		return fmt.Sprintf("-<slot%+d>", minute-s.slot.Unix()/60)
	})
	return timePattern.ReplaceAllStringFunc(text, func(moment string) string {
		at := must(time.Parse(time.RFC3339, moment))(t)
		return fmt.Sprintf("<slot%+v %s>", at.Sub(s.slot).Round(time.Minute), at.Format("-07:00"))
	})
}

var (
	uidPattern  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	slotPattern = regexp.MustCompile(`-\d{8}\b`)
	timePattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)`)
)

func plainJSON(t *testing.T, v any) string {
	t.Helper()
	return string(must(json.Marshal(v))(t))
}

// TestCronJobHandOver stops one manager after it has started the Job of a slot, with or without having recorded it, and lets
// the other take over.
func TestCronJobHandOver(t *testing.T) {
	own(t, "changes the controller manager")
	for _, order := range [][2]cluster.ManagerKind{{cluster.Upstream, cluster.Orrery}, {cluster.Orrery, cluster.Upstream}, {cluster.Orrery, cluster.Orrery}} {
		t.Run(fmt.Sprintf("%s to %s", order[0], order[1]), func(t *testing.T) {
			t.Parallel()
			handCronJobsOver(t, order[0], order[1])
		})
	}
}

func handCronJobsOver(t *testing.T, from, to cluster.ManagerKind) {
	e := start(t, cluster.Options{})
	e.turmoil = true
	f := newFaults(t, e)
	f.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/cronjobs/lost/status") {
			faultproxy.Refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
			return true
		}
		return false
	}, nil)
	args := append([]string{"--controllers=*,-job-controller"}, raised...)
	s := newCronStage(t, e)
	s.create(t, "kept", s.daily(), 23*time.Hour, nil)
	s.create(t, "lost", s.daily(), 23*time.Hour, func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent })
	e.manage(t, from, append([]string{"--kubeconfig=" + e.throughServer(t, f.URL())}, args...)...)
	kept, lost := s.jobName("kept", s.slot), s.jobName("lost", s.slot)
	cronJob := func(name string) *batchv1.CronJob {
		return must(e.Client().BatchV1().CronJobs(s.ns).Get(t.Context(), name, metav1.GetOptions{}))(t)
	}
	jobs := func() string {
		return e.kubectl(t, "-n", s.ns, "get", "jobs", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{"\n"}{end}`)
	}
	recorded := func(name, job string) func() error {
		return func() error {
			if st := cronJob(name).Status; len(st.Active) != 1 || st.Active[0].Name != job || !st.LastScheduleTime.Time.Equal(s.slot) {
				return fmt.Errorf("status %+v", st)
			}
			return nil
		}
	}
	eventually(t, "one Job is recorded", recorded("kept", kept))
	eventually(t, "both Jobs exist", func() error { return differ("jobs", strings.Count(jobs(), "\n"), 2) })
	e.stopManager(t)
	if st := cronJob("lost").Status; len(st.Active) != 0 {
		t.Fatalf("nothing was lost: %+v", st)
	}
	before, version := jobs(), cronJob("kept").ResourceVersion

	e.manage(t, to, args...)
	eventually(t, "the other Job is recorded, too", recorded("lost", lost))
	time.Sleep(5 * time.Second) // for all that it might want to write
	if got := jobs(); got != before {
		t.Errorf("jobs are\n%s\nwant\n%s", got, before)
	}
	if got := cronJob("kept").ResourceVersion; got != version {
		t.Errorf("CronJob kept was rewritten: version %s, then %s", version, got)
	}
	s.end(t, lost, batchv1.JobComplete, time.Now())
	eventually(t, "the end of the Job is seen", func() error {
		if st := cronJob("lost").Status; len(st.Active) != 0 || st.LastSuccessfulTime == nil {
			return fmt.Errorf("status %+v", st)
		}
		return nil
	})
}
