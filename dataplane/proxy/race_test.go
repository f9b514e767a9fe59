package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/failover"
)

// slowly is a place that answers after d with the stream given, unless it is told to stop; told counts
// how often it is.
func slowly(d time.Duration, told func(), parts ...string) canned {
	return func(q *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return streamed(io.EOF, parts...), nil
		case <-q.Context().Done():
			told()
			return nil, context.Cause(q.Context())
		}
	}
}

func TestTheFirstWithContentAnswersAndTheOtherIsToldAtOnce(t *testing.T) {
	for name, late := range map[string]bool{"the first wins": false, "the copy wins": true} {
		synctest.Test(t, func(t *testing.T) {
			stops := 0
			first, second := 3*time.Second, 2*time.Second
			if late {
				first = 10 * time.Second
			}
			w := httptest.NewRecorder()
			relay := New(Options{})
			var race Race
			var results [2]Result
			var ended [2]time.Duration
			var both sync.WaitGroup
			began := time.Now()
			for i, wait := range []time.Duration{first, second} {
				a := try(slowly(wait, func() { stops++ }, role, content, finish, done))
				a.Commit = func(h http.Header, _ Place) { h.Set(HeaderEndpoint, string('a'+rune(i))) }
				race.Enter(a)
				both.Go(func() {
					<-time.After(time.Duration(i) * 2 * time.Second) // the copy goes when the first is late
					results[i] = relay.Do(t.Context(), w, a)
					ended[i] = time.Since(began)
				})
			}
			both.Wait()
			winner, loser := 0, 1
			if late {
				winner, loser = 1, 0
			}
			if r := results[winner]; r.Outcome != failover.OK || r.Lost || !r.Committed {
				t.Errorf("%s: %+v", name, r)
			}
			if r := results[loser]; !r.Lost || r.Committed || r.Retryable || r.Outcome != failover.Ignored || r.Err != nil || r.ClientGone {
				t.Errorf("%s: the other %+v", name, r)
			}
			if ended[winner] != ended[loser] || stops != 1 {
				t.Errorf("%s: ended %v; %d places were told to stop", name, ended, stops)
			}
			if got := w.Body.String(); got != role+content+finish+done || w.Header().Get(HeaderEndpoint) != string('a'+rune(winner)) {
				t.Errorf("%s: the client has %q of %q", name, got, w.Header())
			}
			if !race.Won() {
				t.Errorf("%s: nobody has won", name)
			}
		})
	}
}

func TestWholeAnswersAndMistakesWinToo(t *testing.T) {
	for name, answer := range map[string]*http.Response{
		"whole":   plain(200, nil, answer),
		"mistake": plain(400, nil, `{"error":{"message":"no"}}`),
		"large":   plain(200, http.Header{"Content-Type": {"audio/mpeg"}}, strings.Repeat("x", MaxBuffered+1)),
	} {
		w := httptest.NewRecorder()
		asked := 0
		a := try(once(answer))
		a.Claim = func() bool { asked++; return true }
		if r := New(Options{}).Do(t.Context(), w, a); asked != 1 || !r.Committed {
			t.Errorf("%s: asked %d times: %+v", name, asked, r)
		}
	}
	for name, answer := range map[string]*http.Response{
		"whole":  plain(200, nil, answer),
		"large":  plain(200, http.Header{"Content-Type": {"audio/mpeg"}}, strings.Repeat("x", MaxBuffered+1)),
		"stream": streamed(io.EOF, role, content, done),
	} {
		w := httptest.NewRecorder()
		a := try(once(answer))
		a.Claim = func() bool { return false }
		a.Commit = func(http.Header, Place) { t.Errorf("%s: committed", name) }
		r := New(Options{}).Do(t.Context(), w, a)
		if !r.Lost || r.Committed || r.Retryable || r.Err != nil || w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("%s: %+v, %q", name, r, w.Body)
		}
	}
}

func TestWhatFailsDoesNotClaim(t *testing.T) {
	for name, place := range map[string]canned{
		"503":              once(plain(503, nil, "")),
		"a role, then cut": once(streamed(errReset, role)),
		"an error inside":  once(plain(200, nil, `{"error":{"message":"x"}}`)),
		"half":             once(plain(200, nil, answer[:20])),
	} {
		a := try(place)
		a.Claim = func() bool { t.Errorf("%s: claimed", name); return true }
		if r := New(Options{}).Do(t.Context(), httptest.NewRecorder(), a); !r.Retryable || r.Lost {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestALateEntrantLosesBeforeItSendsAnything(t *testing.T) {
	var race Race
	a := try(once(streamed(io.EOF, content, done)))
	race.Enter(a)
	w := httptest.NewRecorder()
	if r := New(Options{}).Do(t.Context(), w, a); r.Lost || !r.Committed {
		t.Fatalf("%+v", r)
	}
	late := try(canned(func(*http.Request) (*http.Response, error) { t.Error("it was sent"); return nil, errReset }))
	race.Enter(late)
	if r := New(Options{}).Do(t.Context(), w, late); !r.Lost || w.Body.String() != content+done {
		t.Errorf("%+v, %q", r, w.Body)
	}
}

// strict is a client's writer that finds out when two attempts use it.
type strict struct {
	*httptest.ResponseRecorder
	mu      sync.Mutex
	headers int
}

func (s *strict) Write(b []byte) (int, error) {
	if !s.mu.TryLock() {
		panic("two attempts write at once")
	}
	defer s.mu.Unlock()
	return s.ResponseRecorder.Write(b)
}

func (s *strict) WriteHeader(code int) {
	s.mu.Lock()
	s.headers++
	s.mu.Unlock()
	s.ResponseRecorder.WriteHeader(code)
}

// Content, a dead place, the bound of silence and the client's leaving may all come at the same
// moment to several attempts: one at most answers, and each knows how it ended.
func TestWhateverComesAtOnceOnlyOneAnswers(t *testing.T) {
	relay := New(Options{})
	rounds := 300
	won, counts := 0, map[string]int{}
	for round := range rounds {
		w := &strict{ResponseRecorder: httptest.NewRecorder()}
		var race Race
		const n = 3
		start := make(chan struct{})
		var arrived sync.WaitGroup
		arrived.Add(n)
		place := canned(func(*http.Request) (*http.Response, error) {
			arrived.Done()
			<-start
			return streamed(io.EOF, role, content, finish, done), nil
		})
		var attempts [n]*Attempt
		var results [n]Result
		var all sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for i := range n {
			a := try(place)
			if round%3 == 1 {
				a.FirstByte = 50 * time.Microsecond
			}
			attempts[i] = a
			race.Enter(a)
			all.Go(func() { results[i] = relay.Do(ctx, w, a) })
		}
		for i := range round % (n + 1) {
			all.Go(func() {
				<-start
				for range round / 4 { // more or less late
					runtime.Gosched()
				}
				attempts[(round+i)%n].Abandon()
			})
		}
		if round%5 == 4 {
			all.Go(func() { <-start; leave() })
		}
		arrived.Wait()
		close(start)
		all.Wait()
		leave()
		committed := 0
		for i, r := range results {
			kinds := 0
			for kind, is := range map[string]bool{"committed": r.Committed, "lost": r.Lost, "retryable": r.Retryable, "gone": r.ClientGone && !r.Committed} {
				if is {
					kinds++
					counts[kind]++
				}
			}
			if kinds != 1 {
				t.Fatalf("attempt %d of round %d: %+v", i, round, r)
			}
			if r.Committed {
				committed++
				if !r.ClientGone && (r.Outcome != failover.OK || r.Broken) {
					t.Fatalf("the winner of round %d: %+v", round, r)
				}
			}
		}
		if committed > 1 || w.headers != committed {
			t.Fatalf("round %d: %d answered, %d headers", round, committed, w.headers)
		}
		if got := w.Body.String(); committed == 0 && got != "" || committed == 1 && round%5 != 4 && got != role+content+finish+done {
			t.Fatalf("round %d: the client has %q", round, got)
		}
		won += committed
	}
	if won < rounds/8 || counts["lost"] == 0 || counts["retryable"] == 0 {
		t.Errorf("%d of %d rounds were won: %v", won, rounds, counts)
	}
}

func TestALosersUpstreamRequestIsCancelled(t *testing.T) {
	arrived := make(chan struct{})
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) { close(arrived); hang(r) })
	quick := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		<-arrived
		send(w, role, content, finish, done)
	})
	results := make(chan Result, 1)
	f := edge(t, quick.URL, func(a *Attempt) {
		var race Race
		late := &Attempt{URL: target(t, slow.URL), Body: a.Body, FirstByte: time.Minute}
		race.Enter(late)
		race.Enter(a)
		relay := New(Options{})
		t.Cleanup(relay.Close)
		go func() { results <- relay.Do(context.Background(), nil, late) }()
	})
	if _, body, err := f.post(t); body != role+content+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if r := <-results; !r.Lost {
		t.Errorf("%+v", r)
	}
	select {
	case <-slow.left:
	case <-time.After(10 * time.Second):
		t.Error("the place of the loser goes on generating")
	}
}
