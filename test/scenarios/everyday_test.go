package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEveryday exercises the everyday uses of each controller through the API alone, so that it works on any cluster: with
// real or simulated kubelets, with or without other controllers.
func TestEveryday(t *testing.T) {
	t.Parallel()
	e := anywhere(t, 3)
	for _, s := range []struct {
		name string
		run  func(*testing.T, *env, string)
	}{
		{"accounts", everydayAccounts},
		{"daemons", everydayDaemons},
		{"sets", everydaySets},
		{"replication", everydayReplication},
		{"late-jobs", everydayJobs},
		{"budgets", everydayBudgets},
		{"endings", everydayEnd},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t, e, e.namespace(t, "everyday-"+s.name))
		})
	}
}

// everydayAccounts deletes the objects that every namespace is given.
func everydayAccounts(t *testing.T, e *env, ns string) {
	core := e.Client().CoreV1()
	account := must(core.ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{}))(t)
	e.kubectl(t, "-n", ns, "delete", "serviceaccount", "default")
	eventually(t, "another service account", func() error {
		now, err := core.ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{})
		if err == nil && now.UID == account.UID {
			err = errors.New("it is the old one")
		}
		return err
	})
	var ca string
	eventually(t, "the CA", func() error {
		m, err := core.ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil {
			ca = m.Data["ca.crt"]
		}
		return err
	})
	e.kubectl(t, "-n", ns, "patch", "configmap", "kube-root-ca.crt", "--type=merge", "-p", `{"data":{"ca.crt":"forged"}}`)
	eventually(t, "the CA again", func() error {
		m, err := core.ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return errors.Join(err, differ("ca.crt", m.Data["ca.crt"], ca))
	})
	must(core.Secrets(ns).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{}))(t)
	eventually(t, "a token", func() error {
		s, err := core.Secrets(ns).Get(t.Context(), "token", metav1.GetOptions{})
		if err == nil && len(s.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errors.New("there is no token in the Secret")
		}
		return err
	})
	e.kubectl(t, "-n", ns, "delete", "serviceaccount", "default")
	e.gone(t, "secret", ns, "token")
}

// everydayDaemons rolls out a DaemonSet on the eligible nodes.
func everydayDaemons(t *testing.T, e *env, ns string) {
	sets := e.Client().AppsV1().DaemonSets(ns)
	must(sets.Create(t.Context(), daemonSet("web", "2", "0", "1ms"), metav1.CreateOptions{}))(t)
	settled := func(image string) func() error {
		return func() error {
			set := must(sets.Get(t.Context(), "web", metav1.GetOptions{}))(t)
			s := set.Status
			if s.ObservedGeneration != set.Generation || s.DesiredNumberScheduled == 0 || s.NumberAvailable != s.DesiredNumberScheduled || s.UpdatedNumberScheduled != s.DesiredNumberScheduled {
				return fmt.Errorf("generation %d, status %+v", set.Generation, s)
			}
			pods, err := e.pods(t, ns, "web")
			for _, p := range pods {
				err = errors.Join(err, differ("image of "+p.Name, p.Spec.Containers[0].Image, image))
			}
			return errors.Join(err, differ("pods", len(pods), int(s.DesiredNumberScheduled)))
		}
	}
	eventually(t, "a pod on each node", settled("fake:1"))
	e.kubectl(t, "-n", ns, "set", "image", "daemonset/web", "c=fake:2")
	e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/web", "--timeout=2m")
	eventually(t, "the second template", settled("fake:2"))
	e.kubectl(t, "-n", ns, "rollout", "undo", "daemonset/web")
	e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/web", "--timeout=2m")
	eventually(t, "the first template again", settled("fake:1"))
	e.kubectl(t, "-n", ns, "delete", "daemonset", "web")
	e.empty(t, ns, "pods", "controllerrevisions")
}

// everydaySets updates a StatefulSet without storage, one pod after the other, and scales it down.
func everydaySets(t *testing.T, e *env, ns string) {
	must(e.Client().AppsV1().StatefulSets(ns).Create(t.Context(), statefulSet("db", 3), metav1.CreateOptions{}))(t)
	eventually(t, "three pods", func() error { return e.setSettled(t, ns, "db", 3, 3) })
	pods := must(e.pods(t, ns, "db"))(t)
	if got := names(pods); !slices.Equal(got, []string{"db-0", "db-1", "db-2"}) {
		t.Errorf("pods %v", got)
	}
	e.kubectl(t, "-n", ns, "set", "image", "statefulset/db", "c=fake:2")
	e.kubectl(t, "-n", ns, "rollout", "status", "statefulset/db", "--timeout=2m")
	last := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), "db-0", metav1.GetOptions{}))(t).CreationTimestamp
	for _, name := range []string{"db-1", "db-2"} {
		if p := must(e.Client().CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{}))(t); last.Before(&p.CreationTimestamp) {
			t.Errorf("%s was updated after db-0", name)
		}
	}
	e.kubectl(t, "-n", ns, "scale", "statefulset/db", "--replicas=1")
	eventually(t, "one pod", func() error { return e.setSettled(t, ns, "db", 1, 1) })
	if got := names(must(e.pods(t, ns, "db"))(t)); !slices.Equal(got, []string{"db-0"}) {
		t.Errorf("left over are the pods %v", got)
	}
}

// everydayReplication deletes a pod of a ReplicationController, and adds one too many.
func everydayReplication(t *testing.T, e *env, ns string) {
	core := e.Client().CoreV1()
	must(core.ReplicationControllers(ns).Create(t.Context(), replicationController("web", 3), metav1.CreateOptions{}))(t)
	must(core.Services(ns).Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
	ready := func() error {
		rc := must(core.ReplicationControllers(ns).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		pods, err := e.pods(t, ns, "web")
		has4, _ := e.addressFamilies(t, ns, "web")
		ipv4, _, slices := e.readyAddresses(t, ns, "web")
		return errors.Join(err, slices, differ("ready", rc.Status.ReadyReplicas, 3), differ("pods", len(pods), 3), differ("addresses", ipv4, count(3, has4)))
	}
	eventually(t, "three pods with addresses", ready)
	taken := must(e.pods(t, ns, "web"))(t)[0].Name
	e.kubectl(t, "-n", ns, "label", "pod", taken, "app-", "taken=yes")
	eventually(t, "another pod", ready)
	if p := must(core.Pods(ns).Get(t.Context(), taken, metav1.GetOptions{}))(t); len(p.OwnerReferences) > 0 {
		t.Errorf("the pod that was taken is still owned by %v", p.OwnerReferences)
	}
	e.kubectl(t, "-n", ns, "label", "pod", taken, "app=web", "taken-")
	eventually(t, "one too many goes", ready)
}

// everydayJobs has Jobs exceed their deadline, be suspended and expire. Their pods would run for ever.
func everydayJobs(t *testing.T, e *env, ns string) {
	jobs := e.Client().BatchV1().Jobs(ns)
	pod := podSpec("fake:1")
	pod.RestartPolicy = corev1.RestartPolicyNever
	job := func(name string, change func(*batchv1.JobSpec)) {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Parallelism: new(int32(2)), Completions: new(int32(2)), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"localcluster.orrery/run-for": "1h"}}, Spec: pod,
		}}}
		change(&j.Spec)
		must(jobs.Create(t.Context(), j, metav1.CreateOptions{}))(t)
	}
	job("late", func(s *batchv1.JobSpec) {
		s.ActiveDeadlineSeconds, s.TTLSecondsAfterFinished = new(int64(3)), new(int32(5))
	})
	job("waits", func(s *batchv1.JobSpec) { s.Suspend = new(true) })
	eventually(t, "a Job out of time", func() error {
		j, err := jobs.Get(t.Context(), "late", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Reason == batchv1.JobReasonDeadlineExceeded {
				return differ("active", j.Status.Active, 0)
			}
		}
		return fmt.Errorf("conditions are %+v", j.Status.Conditions)
	})
	e.kubectl(t, "-n", ns, "patch", "job", "waits", "-p", `{"spec":{"suspend":false}}`)
	eventually(t, "the Job that waited runs", func() error {
		j := must(jobs.Get(t.Context(), "waits", metav1.GetOptions{}))(t)
		ready := int32(0)
		if j.Status.Ready != nil {
			ready = *j.Status.Ready
		}
		return errors.Join(differ("active", j.Status.Active, 2), differ("ready", ready, 2))
	})
	e.gone(t, "jobs", ns, "late")
	e.kubectl(t, "-n", ns, "delete", "job", "waits", "--cascade=foreground", "--timeout=2m")
	e.empty(t, ns, "pods")
}

// everydayBudgets evicts as many pods as allowed, and no more.
func everydayBudgets(t *testing.T, e *env, ns string) {
	e.rollOut(t, ns, "web", 2)
	e.guard(t, ns, budget("web", "web", "2", ""))
	eventually(t, "no disruption is allowed", func() error {
		return e.guarded(t, ns, map[string]string{"web": "0 of 2/2/2 DisruptionAllowed=False InsufficientPods"})
	})
	e.kubectl(t, "-n", ns, "scale", "deployment/web", "--replicas=3")
	eventually(t, "one disruption is allowed", func() error {
		return e.guarded(t, ns, map[string]string{"web": "1 of 3/2/3 DisruptionAllowed=True SufficientPods"})
	})
}

// everydayEnd deletes a namespace with objects of every kind in it.
func everydayEnd(t *testing.T, e *env, ns string) {
	must(e.Client().AppsV1().Deployments(ns).Create(t.Context(), deployment("web", 2), metav1.CreateOptions{}))(t)
	must(e.Client().CoreV1().Services(ns).Create(t.Context(), service("web"), metav1.CreateOptions{}))(t)
	e.configMaps(t, ns, 3)
	eventually(t, "deployment", func() error { return e.rolledOut(t, ns, "web", 2) })
	e.kubectl(t, "delete", "namespace", ns, "--timeout=2m")
	if _, err := e.Client().AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Deployment outlives its namespace: %v", err)
	}
	e.nothingLeft(t, ns)
}
