package state

// Rebirth is how a state begins anew from a backup, or from what one node has left of it.
type Rebirth struct {
	// Index is where the new history starts; it is raised to the state's own.
	Index uint64
	// ClusterID is the new identity; empty: it stays. Routers that hold a table of another identity
	// take none of this one.
	ClusterID string
	// Lineage tells the new history from the old one; see [View.Lineage].
	Lineage string
}

// Reborn is v as the first state of another history. No table is published before the epoch has
// risen, because routers may hold later ones than v knows of, and the control plane's nodes are
// forgotten: those of the new history make themselves known again.
func (v *View) Reborn(r Rebirth) *View {
	next := *v
	next.index = max(r.Index, v.index)
	next.epochDue, next.lineage, next.nodes = true, r.Lineage, nil
	if r.ClusterID != "" {
		next.clusterID = r.ClusterID
	}
	return &next
}
