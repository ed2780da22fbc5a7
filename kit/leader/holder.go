package leader

// Holder returns who holds the lease, as far as this process has seen, and whether that is this process. It is empty as
// long as nothing has been seen.
func (e *Election) Holder() (identity string, mine bool) {
	return e.elector.GetLeader(), e.elector.IsLeader()
}
