package brownout

// Treatment is how requests of a tier are let in.
type Treatment uint8

// The treatments.
const (
	// Free: as without a brown-out.
	Free Treatment = iota
	// Held: they wait for a lower saturation, and what has waited for too long gets 429.
	Held
	// Floor: all tenants of the tier together get a part of what is let in, and share it fairly.
	Floor
	// Fair: the tenants of the tier share what it gets fairly.
	Fair
)

// Treats says how requests of a priority are treated at a step.
func (s Step) Treats(priority int32) Treatment {
	switch {
	case priority < 0 && s >= HoldBatch:
		return Held
	case priority >= 0 && priority < 50 && s >= FloorBestEffort:
		return Floor
	case priority >= 50 && priority < 100 && s >= ShareStandard, priority >= 100 && s >= ShareTop:
		return Fair
	}
	return Free
}

// Extras says whether what nobody waits for may be sent: hedges, copies for tests, and canaries of places that are well.
// Canaries of places that are ejected or in doubt are none.
func (s Step) Extras() bool { return s < NoExtras }

// Tokens is the most that an answer to a request of a priority may have, when the client asked for so many at most; 0:
// it did not say, and, as an answer, no bound. It is never more than what the client asked for.
func (s Step) Tokens(priority int32, asked int64, c Config) int64 {
	if priority >= 0 || s < ShortBatch {
		return asked
	}
	most := c.WithDefaults().BatchTokens
	if asked > 0 {
		return min(asked, most)
	}
	return most
}
