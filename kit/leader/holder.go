package leader

import "k8s.io/client-go/tools/leaderelection/resourcelock"

// Holder returns who holds the lease, as far as this process has seen, and whether that is this process. It is empty as
// long as nothing has been seen.
func (e *Election) Holder() (identity string, mine bool) {
	if e.elector.IsLeader() {
		return e.elector.GetLeader(), true
	}
	if seen := e.holder.Load(); seen != nil {
		return *seen, false
	}
	return "", false
}

// tell reports who holds the lease, for Holder: the election itself does not see it while another process leads.
func (l *standbyLock) tell(r resourcelock.LeaderElectionRecord) {
	if l.holder != nil {
		l.holder(r.HolderIdentity)
	}
}
