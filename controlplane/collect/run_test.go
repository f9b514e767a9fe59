package collect

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/signal"
)

// wire answers polls in virtual time, and remembers when each host was asked.
type wire struct {
	mu    sync.Mutex // guards what follows
	takes map[string]time.Duration
	page  map[string]string
	asked map[string][]time.Time
	at    int // requests under way, and the most there ever were
	most  int
}

func newWire() *wire {
	return &wire{takes: map[string]time.Duration{}, page: map[string]string{}, asked: map[string][]time.Time{}}
}

func (w *wire) set(host, page string, takes time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.page[host], w.takes[host] = page, takes
}

func (w *wire) times(host string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Time(nil), w.asked[host]...)
}

// RoundTrip answers with the page of a host after what it takes; without a page with 500.
func (w *wire) RoundTrip(q *http.Request) (*http.Response, error) {
	host := q.URL.Hostname()
	w.mu.Lock()
	w.asked[host] = append(w.asked[host], time.Now())
	takes, page := w.takes[host], w.page[host]
	w.at++
	w.most = max(w.most, w.at)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.at--
	}()
	select {
	case <-q.Context().Done():
		return nil, q.Context().Err()
	case <-time.After(takes):
	}
	code := http.StatusOK
	if page == "" {
		code = http.StatusInternalServerError
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(page)), Request: q}, nil
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// near says that a count is as expected, within a fifth.
func near(got int, want float64) bool { return float64(got) >= 0.8*want && float64(got) <= 1.2*want }

// Each source has its own interval, and one that hangs delays no other, nor itself by more than its
// time-out.
func TestEachSourceHasItsOwnPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		net.set("fast", poolPage, 20*time.Millisecond)
		net.set("seldom", poolPage, 20*time.Millisecond)
		net.set("hangs", poolPage, time.Hour)
		clusters := map[string]string{
			"fast":   gateway("http://fast/metrics", "intervalMs: 1000"),
			"seldom": gateway("http://seldom/metrics", "intervalMs: 30000"),
			"hangs":  gateway("http://hangs/metrics", "intervalMs: 4000, timeoutMs: 3000"),
		}
		for i := range 50 { // so many that hang are no matter either
			clusters[fmt.Sprint("hung-", i)] = gateway("http://hangs/metrics", "intervalMs: 10000, timeoutMs: 10000")
		}
		w := newWorld(t, net, clusters)
		stop := w.run()
		pass(5 * time.Minute)
		stop()
		if n := len(net.times("fast")); !near(n, 300) {
			t.Errorf("the fast one was asked %d times in 300 s", n)
		}
		if n := len(net.times("seldom")); !near(n, 10) {
			t.Errorf("the one each 30 s was asked %d times in 300 s", n)
		}
		times := net.times("fast")
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap < 850*time.Millisecond || gap > 1150*time.Millisecond {
				t.Fatalf("%s between two polls of the fast one", gap)
			}
		}
		if s := w.source("hangs", ""); s.Failures < 50 || s.Polls != s.Failed || !strings.Contains(s.Error, "no answer within 3s") {
			t.Errorf("the one that hangs: %+v", s)
		}
		// One at a time at each source.
		if net.most > len(clusters) {
			t.Errorf("%d requests at once to %d sources", net.most, len(clusters))
		}
		if s := w.source("fast", ""); s.Age(time.Now()) > 1200*time.Millisecond || s.Failures != 0 || s.Ready != 4 {
			t.Errorf("the fast one: %+v", s)
		}
	})
}

// Polls of many sources of one interval are spread over it, from the first on.
func TestPollsAreSpreadOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		clusters := map[string]string{}
		for i := range 200 {
			clusters[fmt.Sprint("c", i)] = gateway("http://all/metrics", "intervalMs: 10000")
		}
		net.set("all", poolPage, 0)
		w := newWorld(t, net, clusters)
		began := time.Now()
		stop := w.run()
		pass(time.Minute)
		stop()
		perSecond := map[int]int{}
		for _, at := range net.times("all") {
			perSecond[int(at.Sub(began).Seconds())]++
		}
		for second, n := range perSecond {
			if n > 45 {
				t.Errorf("%d of 200 polls in second %d", n, second)
			}
		}
	})
}

// What fails is asked again soon, until it is clear that nothing answers, and then at its own pace.
func TestWhatFailsIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		net.set("a", poolPage, 0)
		w := newWorld(t, net, map[string]string{"c": gateway("http://a/metrics", "intervalMs: 20000")})
		stop := w.run()
		pass(time.Minute)
		net.set("a", "", 0)
		failed := time.Now()
		pass(25 * time.Second)
		s := w.source("c", "")
		if s.Failures < signal.FailedPolls || s.Error != "answered 500" {
			t.Errorf("%d failures after %s: %+v", s.Failures, time.Since(failed), s)
		}
		before := len(net.times("a"))
		pass(2 * time.Minute)
		if n := len(net.times("a")) - before; !near(n, 6) {
			t.Errorf("asked %d times in two minutes while nothing answers", n)
		}
		net.set("a", poolPage, 0)
		pass(23 * time.Second)
		stop()
		if s := w.source("c", ""); s.Failures != 0 || s.Error != "" || s.Failed == 0 || s.Running != 32 {
			t.Errorf("it answers again: %+v", s)
		}
		for _, line := range []string{"source stopped answering", "source answers again"} {
			if n := strings.Count(w.logged(), line); n != 1 {
				t.Errorf("%q is told %d times", line, n)
			}
		}
	})
}

// Sources come, go and change with the configuration, and with what routers report.
func TestSourcesFollowTheConfigurationAndTheRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		for _, host := range []string{"one", "two", "three"} {
			net.set(host, poolPage, 0)
		}
		auto := func(host string) string {
			return strings.ReplaceAll(gateway("http://"+host+"/metrics", "intervalMs: 1000"), "always", "auto")
		}
		w := newWorld(t, net, map[string]string{"c": auto("one")})
		stop := w.run()
		defer stop()
		polls := func(host string, over time.Duration) int {
			before := len(net.times(host))
			pass(over)
			return len(net.times(host)) - before
		}
		if n := polls("one", 4*time.Second); n != 0 {
			t.Errorf("%d polls before routers could report", n)
		}
		if s := w.source("c", ""); s.Active || s.Why != "routers of eu may be about to report" || s.Polls != 0 {
			t.Errorf("at first: %+v", s)
		}
		if n := polls("one", 12*time.Second); !near(n, 11) {
			t.Errorf("%d polls in 12 s without a router", n)
		}
		w.reports("eu")
		pass(time.Second + every)
		if s := w.source("c", ""); s.Active || s.Why != "routers of eu report" || s.Polls == 0 {
			t.Errorf("when a router reports: %+v", s)
		}
		if n := polls("one", 3*time.Second); n != 0 {
			t.Errorf("%d polls while a router reports", n)
		}
		pass(2 * time.Second) // it has reported no more
		if n := polls("one", 10*time.Second); !near(n, 10) {
			t.Errorf("%d polls in 10 s after the router", n)
		}
		w.configure(map[string]string{"c": auto("two"), "d": auto("three")})
		pass(every)
		if n := polls("one", 5*time.Second); n != 0 {
			t.Errorf("%d polls of where it was", n)
		}
		if len(net.times("two")) < 3 || len(net.times("three")) < 3 {
			t.Errorf("%d and %d polls of what is new", len(net.times("two")), len(net.times("three")))
		}
		w.configure(map[string]string{"d": strings.ReplaceAll(auto("three"), "auto", "never")})
		pass(every)
		if n := polls("three", 5*time.Second) + polls("two", 5*time.Second); n != 0 {
			t.Errorf("%d polls of what is not to be", n)
		}
		if s := w.source("c", ""); s.Cluster != "" {
			t.Errorf("what is gone: %+v", s)
		}
		if s := w.source("d", ""); s.Active || s.Why != "mode is never" {
			t.Errorf("what is not to be polled: %+v", s)
		}
	})
}

// A poll under way when nobody wants it any more changes nothing, and holds up no end.
func TestTheEndWaitsForNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		net.set("slow", poolPage, 8*time.Second)
		w := newWorld(t, net, map[string]string{"c": gateway("http://slow/metrics", "intervalMs: 1000, timeoutMs: 10000")})
		stop := w.run()
		pass(3 * time.Second)
		w.configure(map[string]string{"c": gateway("http://slow/metrics", "intervalMs: 60000, timeoutMs: 10000")})
		pass(7 * time.Second)
		if s := w.source("c", ""); s.Polls != 0 || s.Failures != 0 {
			t.Errorf("an abandoned poll was counted: %+v", s)
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("the end took %s", took)
		}
		if net.at != 0 {
			t.Errorf("%d requests are still under way", net.at)
		}
	})
}

func TestAModelServerThatStandsStillDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		net.set("a", serverPage, 0) // five in the batch, and never a token more
		net.set("b", strings.ReplaceAll(serverPage, "running 5", "running 0"), 0)
		net.set("c", poolPage+"llm_d_epp_request_output_tokens_sum 7\n", 0)
		w := newWorld(t, net, map[string]string{
			"a": server("http://a", ""), "b": server("http://b", ""), "c": gateway("http://c/metrics", ""),
		})
		stop := w.run()
		pass(20 * time.Second)
		if s := w.source("a", "a"); s.Failures != 0 {
			t.Errorf("after 20 s: %+v", s)
		}
		pass(20 * time.Second)
		if s := w.source("a", "a"); s.Failures < signal.FailedPolls || !strings.Contains(s.Error, "stood still") {
			t.Errorf("after 40 s: %+v", s)
		}
		for _, idle := range []signal.Source{w.source("b", "a"), w.source("c", "")} {
			if idle.Failures != 0 {
				t.Errorf("one that is idle, or a pool: %+v", idle)
			}
		}
		net.set("a", strings.ReplaceAll(serverPage, "_total 7", "_total 8"), 0)
		pass(3 * time.Second)
		stop()
		if s := w.source("a", "a"); s.Failures != 0 {
			t.Errorf("it moves again: %+v", s)
		}
	})
}

// Where no page was, one is looked for again from time to time.
func TestMetricsThatComeLaterAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		net.set("a", "ok", 0)
		w := newWorld(t, net, map[string]string{"c": server("http://a", "intervalMs: 1000")})
		stop := w.run()
		pass(5 * time.Second)
		if s := w.source("c", "a"); s.Kind != KindHealth || s.URL != "http://a/health" || s.Failures != 0 {
			t.Errorf("without a page: %+v", s)
		}
		net.set("a", serverPage, 0)
		pass(40 * time.Second)
		stop()
		if s := w.source("c", "a"); s.Kind != KindServer || s.URL != "http://a/metrics" || s.Running != 5 {
			t.Errorf("with one: %+v", s)
		}
	})
}
