package manager

// Leadership says who runs what needs a lease.
type Leadership struct {
	Election bool   `json:"election"`         // if false, every process runs everything
	Leading  bool   `json:"leading"`          // this process holds the lease
	Lease    string `json:"lease,omitempty"`  // namespace/name
	Holder   string `json:"holder,omitempty"` // who was last seen to hold the lease
	// Further are the leases of NewLease.
	Further []Leadership `json:"further,omitempty"`
}

// Leadership returns who runs what needs the lease, as far as this process knows.
func (m *Manager) Leadership() Leadership {
	if m.election == nil {
		return Leadership{Leading: true}
	}
	l := Leadership{Election: true, Lease: m.o.Election.Namespace + "/" + m.o.Election.ID}
	l.Holder, l.Leading = m.election.Holder()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, further := range m.leases {
		l.Further = append(l.Further, further.Leadership())
	}
	return l
}
