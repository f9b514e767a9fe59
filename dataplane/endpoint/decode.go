package endpoint

// decode learns how long the time between tokens is:
//
//	base + more × requests in the batch + prompt × prompt tokens of others that are computed meanwhile
//
// by least squares over samples of which the older count the less, strays left out as a [line] does. It
// starts from a belief. A prompt costs those that decode at most what it takes by itself, and less where
// a step has room to spare: that is found out only from samples that say exactly what was computed.
type decode struct {
	base, more float64 // s
	prompt     float64 // s a token; 0: nothing is known yet

	lately, long plane // what the level goes by, and the slopes
	strays       int   // in a row
}

const (
	// longMemory is some five hundred samples. Batches grow and shrink slowly: of fifty all are often
	// alike, and what each further request costs would be told by chance.
	longMemory = 0.998
	// tellsPrompt is how many samples tell what a prompt costs, of which leastPrompt of the most is
	// believed at the least.
	tellsPrompt = 20
	leastPrompt = 0.25
	// apart: of two things that hardly differ in how they vary nothing can be told.
	apart = 0.01
	// leastSteps is the part of the time between tokens that is taken for decode steps at the least.
	leastSteps = 0.1
)

// gap is one request's mean time between tokens.
type gap struct {
	seconds float64
	batch   float64 // requests in it, itself among them
	beside  float64 // prompt tokens of others for each token
	exact   bool    // beside was counted, not estimated
}

// plane is weighted sums of samples of two variables, the batch and what is beside.
type plane struct{ w, a, b, y, aa, ab, bb, ay, by float64 }

func (s *plane) add(g gap, keep float64) {
	a, b, y := g.batch, g.beside, g.seconds
	s.w, s.a, s.b, s.y = s.w*keep+1, s.a*keep+a, s.b*keep+b, s.y*keep+y
	s.aa, s.ab, s.bb = s.aa*keep+a*a, s.ab*keep+a*b, s.bb*keep+b*b
	s.ay, s.by = s.ay*keep+a*y, s.by*keep+b*y
}

// at is what is expected.
func (d *decode) at(batch, beside float64) float64 { return d.base + d.more*batch + d.prompt*beside }

// learn takes one sample; its numbers must be finite, and positive or for beside 0, and are dropped if
// not. Dearest is what a prompt token takes by itself, in seconds.
func (d *decode) learn(g gap, dearest float64) {
	if !(g.seconds > 0 && g.batch > 0 && g.beside >= 0 && g.seconds < 1e6 && g.batch < 1e12 && g.beside < 1e12) {
		return
	}
	if d.long.w > warm {
		if want := d.at(g.batch, g.beside); g.seconds > want*strayFactor || g.seconds*strayFactor < want {
			if d.strays++; d.strays < strayLimit {
				return
			}
			d.lately, d.long = plane{}, plane{}
		}
	}
	d.strays = 0
	d.lately.add(g, memory)
	d.long.add(g, longMemory)
	d.fit(g.exact, dearest)
}

// fit finds the slopes and then the level, kept to what can be: nothing is below 0.
func (d *decode) fit(exact bool, dearest float64) {
	s := &d.long
	a, b, y := s.a/s.w, s.b/s.w, s.y/s.w
	aa, ab, bb := s.aa/s.w-a*a, s.ab/s.w-a*b, s.bb/s.w-b*b
	ay, by := s.ay/s.w-a*y, s.by/s.w-b*y
	varies := s.w >= 2 && aa > spread*spread*a*a
	d.prompt = dearest
	if det := aa*bb - ab*ab; exact && s.w >= tellsPrompt && bb > 0 {
		if varies && det > apart*aa*bb {
			d.prompt = (by*aa - ay*ab) / det
		} else {
			d.prompt = (by - d.more*ab) / bb
		}
		d.prompt = min(max(d.prompt, leastPrompt*dearest), dearest)
	}
	if varies {
		d.more = max((ay-d.prompt*ab)/aa, 0)
	}
	s = &d.lately
	a, y = s.a/s.w, s.y/s.w
	y = max(y-d.prompt*s.b/s.w, leastSteps*y)
	if d.base = y - d.more*a; d.base < 0 {
		d.base, d.more = 0, y/a
	}
}
