package failover

import (
	"errors"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const right = "the sea ran out "
	good := answer{status: 200, text: right, done: true, stream: true}
	for name, c := range map[string]struct {
		change func(*answer)
		barred bool // nothing may serve it
		want   end
	}{
		"all of it":                        {func(*answer) {}, false, whole},
		"all of it, not streamed":          {func(a *answer) { a.stream = false }, false, whole},
		"no end":                           {func(a *answer) { a.done = false }, false, lost},
		"a word twice":                     {func(a *answer) { a.text = "the sea sea ran out " }, false, lost},
		"a word missing":                   {func(a *answer) { a.text = "the ran out " }, false, lost},
		"a part that is told as all":       {func(a *answer) { a.text = "the sea " }, false, lost},
		"a part and an error event":        {func(a *answer) { a.text, a.done, a.failed = "the sea ", false, true }, false, cut},
		"a part and no error event":        {func(a *answer) { a.text, a.done = "the sea ", false }, false, lost},
		"a part and both ends":             {func(a *answer) { a.text, a.failed = "the sea ", true }, false, lost},
		"a wrong part and an error event":  {func(a *answer) { a.text, a.done, a.failed = "the sky ", false, true }, false, lost},
		"all of it and an error event":     {func(a *answer) { a.done, a.failed = false, true }, false, lost},
		"no content and an error event":    {func(a *answer) { a.text, a.done, a.failed = "", false, true }, false, lost},
		"a 503 while something may serve":  {func(a *answer) { *a = answer{status: 503, code: "no_legal_target"} }, false, lost},
		"a 503 while nothing may serve":    {func(a *answer) { *a = answer{status: 503, code: "no_legal_target"} }, true, refused},
		"a 502 while something may serve":  {func(a *answer) { *a = answer{status: 502, code: "upstream_reset"} }, false, lost},
		"a 502 while nothing else may":     {func(a *answer) { *a = answer{status: 502, code: "upstream_reset"} }, true, refused},
		"a 503 without a reason":           {func(a *answer) { *a = answer{status: 503} }, true, lost},
		"a connection that breaks":         {func(a *answer) { a.err = errors.New("reset") }, false, lost},
		"an answer though nothing may":     {func(*answer) {}, true, whole},
		"an error status though it's 200s": {func(a *answer) { a.status = 500 }, false, lost},
	} {
		a := good
		c.change(&a)
		if got, why := judge(a, right, !c.barred); got != c.want {
			t.Errorf("%s: %d (%s), not %d", name, got, why, c.want)
		}
	}
}

func TestAwayIsFromWhenAtMostOneInAHundredMeetsThePlace(t *testing.T) {
	t0 := time.Unix(1000, 0)
	at := func(ms int, met bool) answer {
		a := answer{began: t0.Add(time.Duration(ms) * time.Millisecond), attempts: 1}
		if met {
			a.attempts = 2
		}
		return a
	}
	touched := func(a answer) bool { return a.attempts > 1 }
	var answers []answer
	for ms := range 300 {
		answers = append(answers, at(10*ms, ms <= 20)) // up to 200 ms, of 3 s
	}
	if got := away(answers, t0, touched); got != 180*time.Millisecond { // three of 282
		t.Errorf("away after %v", got)
	}
	answers[290] = at(2900, true) // one of the last ten
	if got := away(answers, t0, touched); got != 2900*time.Millisecond {
		t.Errorf("with one that came back: away after %v", got)
	}
	answers[290] = at(2900, false)
	answers[150] = at(1500, true)                                       // one of the last 150
	if got := away(answers, t0, touched); got != 190*time.Millisecond { // three of 281
		t.Errorf("with one in 150: away after %v", got)
	}
	if got := away(nil, t0, touched); got != 0 {
		t.Errorf("with none: %v", got)
	}
}

func TestQuantile(t *testing.T) {
	if quantile(nil, 0.5) != 0 || quantile([]float64{3, 1, 2}, 0.5) != 2 || quantile([]float64{3, 1, 2}, 1) != 3 {
		t.Error("wrong ranks")
	}
}

func TestSwing(t *testing.T) {
	for name, c := range map[string]struct {
		series []float64
		peak   float64
		turns  int
	}{
		"none":              {nil, 0, 0},
		"steady":            {[]float64{5, 5, 5}, 0, 0},
		"up":                {[]float64{5, 6, 9}, 4, 0},
		"up and down":       {[]float64{5, 9, 5}, 4, 1},
		"down and up":       {[]float64{5, 1, 5}, 4, 1},
		"too little a turn": {[]float64{5, 9, 8.5, 9.5}, 4.5, 0},
		"to and fro":        {[]float64{5, 9, 5, 9, 5}, 4, 3},
		"slowly back":       {[]float64{5, 9, 8.6, 8.2, 7.8}, 4, 1},
	} {
		if peak, turns := swing(c.series, 1); peak != c.peak || turns != c.turns {
			t.Errorf("%s: %v and %d", name, peak, turns)
		}
	}
}

func TestAmplificationIsTheMostOfAnyWindow(t *testing.T) {
	var samples []tried
	requests, attempts := 0.0, 0.0
	for second := range 40 {
		samples = append(samples, tried{time.Unix(int64(second), 0), requests, attempts})
		requests += 10
		attempts += 10
		if second >= 15 && second < 20 {
			attempts += 4
		}
	}
	if got := amplification(samples, 10*time.Second); got != 1.2 {
		t.Errorf("%v", got)
	}
	if got := amplification(samples[:5], 10*time.Second); got != 0 {
		t.Errorf("%v of less than a window", got)
	}
}
