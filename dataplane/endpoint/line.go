package endpoint

// line learns y = base + slope·x from samples, the older the less they count, and shrugs off
// strays. It starts from a belief and needs no samples to be asked.
type line struct {
	base, slope float64
	// anchor is what is believed of y at x = 0: it counts as one sample more, which says what part of y
	// is base when all x are much alike. 0: nothing is believed.
	anchor float64

	w, x, y, xx, xy float64 // weighted sums of the samples
	strays          int     // in a row
}

const (
	// memory is what a sample's weight shrinks to with each later one: some fifty samples count.
	memory = 0.98
	// strayFactor: a sample so many times above or below what was expected is a stray, unless
	// strayLimit come in a row, which is how the world changes.
	strayFactor = 4
	strayLimit  = 5
	// warm is how many samples are taken without judging them.
	warm = 5
	// spread: the samples' x must vary by this share of their mean to tell slope from base.
	spread = 0.2
)

// at is what is expected of x.
func (l *line) at(x float64) float64 { return l.base + l.slope*x }

// learn takes one sample; both numbers must be finite and positive, and are dropped if not.
func (l *line) learn(x, y float64) {
	if !(x > 0 && y > 0 && x < 1e12 && y < 1e6) {
		return
	}
	if l.w > warm {
		if want := l.at(x); y > want*strayFactor || y*strayFactor < want {
			if l.strays++; l.strays < strayLimit {
				return
			}
			l.w, l.x, l.y, l.xx, l.xy = 0, 0, 0, 0, 0
		}
	}
	l.strays = 0
	l.w, l.x, l.y = l.w*memory+1, l.x*memory+x, l.y*memory+y
	l.xx, l.xy = l.xx*memory+x*x, l.xy*memory+x*y
	l.fit()
}

// fit is least squares, kept to what can be: neither number below 0.
func (l *line) fit() {
	w, y := l.w, l.y
	if l.anchor > 0 {
		w, y = w+1, y+l.anchor
	}
	mx, my := l.x/w, y/w
	variance := l.xx/w - mx*mx
	if l.anchor > 0 || l.w >= 2 && variance > spread*spread*mx*mx {
		l.slope = (l.xy/w - mx*my) / variance
	}
	l.slope = max(l.slope, 0)
	if l.base = my - l.slope*mx; l.base < 0 {
		l.base, l.slope = 0, l.xy/l.xx
	}
}

// mean is a running mean in which the older samples count the less.
type mean struct{ value, w float64 }

func (m *mean) learn(v float64) {
	m.w = m.w*memory + 1
	m.value += (v - m.value) / m.w
}

// or is the mean, or a belief while there is no sample.
func (m *mean) or(belief float64) float64 {
	if m.w == 0 {
		return belief
	}
	return m.value
}
