package policy

// The tiers of tenants, lowest first.
const (
	TierBatch      = "batch"
	TierBestEffort = "best-effort"
	TierStandard   = "standard"
	TierTop        = "top"
)

// Tiers lists the legal tiers, lowest first.
func Tiers() []string { return []string{TierBatch, TierBestEffort, TierStandard, TierTop} }

// TierPriority is the default priority of a tier's requests: batch -10, best-effort 0, standard 50,
// top 100. Anything else, also the empty tier, counts as standard.
func TierPriority(tier string) int32 {
	switch tier {
	case TierBatch:
		return -10
	case TierBestEffort:
		return 0
	case TierTop:
		return 100
	}
	return 50
}

// CountsAs is the priority that requests of a priority are planned with: that of the highest tier that is not above
// it, or of the lowest tier. Routers count by the same.
func CountsAs(priority int32) int32 {
	as := TierPriority(TierBatch)
	for _, name := range Tiers() {
		if p := TierPriority(name); p <= priority {
			as = max(as, p)
		}
	}
	return as
}
