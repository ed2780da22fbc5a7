package leader

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1beta1client "k8s.io/client-go/kubernetes/typed/coordination/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"orrery/kit/client"
)

const (
	// candidateRenewal is how often a candidate renews itself unasked. The API server forgets one after half an hour, and
	// holds an election when one is half as old.
	candidateRenewal = 5 * time.Minute
	// candidateRetry is the time between two attempts. A candidate that does not answer within 5 s is passed over.
	candidateRetry = time.Second
	// candidateWait is the same where the API server does not serve LeaseCandidates.
	candidateWait = 5 * time.Second
	// candidateCall is the timeout of one request.
	candidateCall = 5 * time.Second
	// longGone is the age that a withdrawn candidate pretends to have: the API server ignores any of that age.
	longGone = 24 * time.Hour
	// sayAgain is the time between two log lines about the same problem.
	sayAgain = time.Minute
)

// Versions are what the API server chooses a leader by: the one that emulates the oldest version leads. Both are
// major.minor.patch.
type Versions struct{ Binary, Emulation string }

// Candidate is this process's entry in the list that the API server chooses the leader of a lease from: a LeaseCandidate,
// named as the process is named in the lease. It answers when the API server asks whether the process still lives.
type Candidate struct {
	client    coordinationv1beta1client.LeaseCandidateInterface
	want      coordinationv1beta1.LeaseCandidate // as it is created, but for the time
	published atomic.Bool
}

// NewCandidate prepares the entry of the process with that identity for a lease. It has a connection of its own, because a
// late answer counts as none.
func NewCandidate(config *rest.Config, identity, namespace, lease string, v Versions) (*Candidate, error) {
	config = client.AddAgent(rest.CopyConfig(config), userAgent)
	apart(config, candidateCall)
	c, err := coordinationv1beta1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of candidate %s/%s: %w", namespace, identity, err)
	}
	return &Candidate{client: c.LeaseCandidates(namespace), want: coordinationv1beta1.LeaseCandidate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: identity},
		Spec: coordinationv1beta1.LeaseCandidateSpec{
			LeaseName: lease, BinaryVersion: v.Binary, EmulationVersion: v.Emulation, Strategy: coordinationv1.OldestEmulationVersion,
		},
	}}, nil
}

// Published reports whether the API server has taken the entry.
func (c *Candidate) Published() bool { return c.published.Load() }

// stand runs the candidate until ctx ends or resign is called, which waits until the candidate has been withdrawn.
func (e *Election) stand(ctx context.Context) (resign func()) {
	if e.candidate == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		e.candidate.run(ctx)
	}()
	return func() {
		cancel()
		<-gone
	}
}

// run publishes the entry, keeps it, and withdraws it when ctx ends.
func (c *Candidate) run(ctx context.Context) {
	log := klog.FromContext(ctx)
	var said time.Time
	for ctx.Err() == nil {
		err := c.follow(ctx)
		if err != nil && ctx.Err() == nil && time.Since(said) >= sayAgain {
			said = time.Now()
			c.explain(log, err)
		}
		pause := candidateRetry
		if apierrors.IsNotFound(err) {
			pause = candidateWait
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	if c.Published() {
		if err := c.withdraw(ctx); err != nil {
			log.Info("Cannot withdraw the lease candidate; the API server passes it over when it does not answer", "candidate", c.want.Name, "err", err)
		}
	}
}

// explain says what is wrong and what to do about it.
func (c *Candidate) explain(log klog.Logger, err error) {
	if apierrors.IsNotFound(err) {
		log.Info("The API server takes no lease candidates and so names no leader, which this process waits for. Start it with "+
			"--feature-gates=CoordinatedLeaderElection=true --runtime-config=coordination.k8s.io/v1beta1=true, or this process without the gate",
			"candidate", c.want.Name, "lease", c.want.Spec.LeaseName, "err", err)
		return
	}
	log.Info("Cannot keep the lease candidate; trying again", "candidate", c.want.Name, "lease", c.want.Spec.LeaseName, "err", err)
}

// follow publishes the entry and renews it whenever the API server asks, and from time to time. It returns when it has to
// be started again.
func (c *Candidate) follow(ctx context.Context) error {
	have, err := c.renew(ctx, nil)
	if err != nil {
		return err
	}
	changes, err := c.client.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, c.want.Name).String(), ResourceVersion: have.ResourceVersion,
	})
	if err != nil {
		return err
	}
	defer changes.Stop()
	due := time.NewTimer(candidateRenewal)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			return nil // and is renewed at once
		case e, open := <-changes.ResultChan():
			seen, ok := e.Object.(*coordinationv1beta1.LeaseCandidate)
			if !open || !ok || e.Type == watch.Deleted {
				return nil
			}
			if !asked(seen) {
				continue
			}
			if _, err := c.renew(ctx, seen); err != nil {
				if apierrors.IsConflict(err) {
					return nil
				}
				return err
			}
			due.Reset(candidateRenewal)
		}
	}
}

// asked reports whether the API server waits for an answer.
func asked(c *coordinationv1beta1.LeaseCandidate) bool {
	ping, last := c.Spec.PingTime, c.Spec.RenewTime
	return ping != nil && (last == nil || last.Before(ping))
}

// renew tells the API server that the process is alive. seen is the entry as it was last seen. If that is nil, the entry is
// fetched, created if it does not exist, and left alone if it is recent and the API server does not ask.
func (c *Candidate) renew(ctx context.Context, seen *coordinationv1beta1.LeaseCandidate) (*coordinationv1beta1.LeaseCandidate, error) {
	ctx, cancel := context.WithTimeout(ctx, candidateCall)
	defer cancel()
	if seen == nil {
		have, err := c.client.Get(ctx, c.want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return c.create(ctx)
		case err != nil:
			return nil, err
		case !asked(have) && have.Spec.RenewTime != nil && time.Since(have.Spec.RenewTime.Time) < candidateRenewal:
			return have, nil
		}
		seen = have
	}
	next := seen.DeepCopy()
	now := metav1.NowMicro()
	next.Spec.RenewTime = &now
	return c.client.Update(ctx, next, metav1.UpdateOptions{})
}

func (c *Candidate) create(ctx context.Context) (*coordinationv1beta1.LeaseCandidate, error) {
	next := c.want.DeepCopy()
	now := metav1.NowMicro()
	next.Spec.RenewTime = &now
	made, err := c.client.Create(ctx, next, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	c.published.Store(true)
	klog.FromContext(ctx).Info("Published the lease candidate", "candidate", made.Name, "lease", made.Spec.LeaseName,
		"binaryVersion", made.Spec.BinaryVersion, "emulationVersion", made.Spec.EmulationVersion)
	return made, nil
}

// withdraw keeps the API server from waiting for the answer of a process that has ended. The role of a controller manager
// does not allow it to delete candidates, so it backdates its own: the API server then ignores and finally removes it.
func (c *Candidate) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), candidateCall/2)
	defer cancel()
	for {
		have, err := c.client.Get(ctx, c.want.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		old := metav1.NewMicroTime(time.Now().Add(-longGone))
		have.Spec.RenewTime, have.Spec.PingTime = &old, nil
		if _, err = c.client.Update(ctx, have, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}
