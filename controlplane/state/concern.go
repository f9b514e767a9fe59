package state

// ConcernsRouters says whether routers may have to be told something as of v that they had not to be told as of an
// earlier view; of nil always. What no router hears of does not concern them: resources before they are in a table, tokens,
// health, proposals, the trail. What passes by time alone is not seen here.
func (v *View) ConcernsRouters(before *View) bool {
	return before == nil || v.clusterID != before.clusterID || v.epoch != before.epoch || v.epochDue != before.epochDue || v.level != before.level ||
		v.Table() != before.Table() || v.FreshTable() != before.FreshTable() || v.Rollout() != before.Rollout() ||
		v.ledger.revision != before.ledger.revision || !unchanged(v.ledger.runs, before.ledger.runs) || !v.account.SameRuns(before.account) ||
		!unchanged(v.drills.all, before.drills.all) || !unchanged(v.emergency.orders, before.emergency.orders)
}

// unchanged says that two lists, which are replaced and never written to, are one.
func unchanged[E any](a, b []*E) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
