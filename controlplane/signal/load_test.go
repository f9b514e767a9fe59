package signal

import (
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// answered is tokens of a cluster's answers in a report, and how many of its prompts' were cached.
func answered(in, out, prefix, cached uint64) func(*routerpb.Report) {
	return func(r *routerpb.Report) {
		r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
			Cluster: "us-a", Model: "m", Scraped: true, InputTokens: in, OutputTokens: out, PrefixTokens: prefix, CachedTokens: cached, Requests: 1,
		})
	}
}

func TestTokensAreThoseOfTheLastSecondsByTheClustersOwnRegion(t *testing.T) {
	c := newClock()
	if l := c.look().Cluster("us-a", "m"); l.TokensPerS != 0 || l.PrefixHits() != -1 {
		t.Errorf("before the first: %+v", l)
	}
	c.report("us", answered(1000, 500, 0, 0))
	if l := c.look().Cluster("us-a", "m"); l.TokensPerS != 1500 || l.PrefixHits() != -1 {
		t.Errorf("after one second: %v tokens/s, %v found", l.TokensPerS, l.PrefixHits())
	}
	for range 9 {
		c.pass(time.Second)
		c.report("us", answered(0, 0, 100, 40))
	}
	if l := c.look().Cluster("us-a", ""); l.TokensPerS != 150 || l.PrefixHits() != 0.4 {
		t.Errorf("over ten seconds: %v tokens/s, %v found", l.TokensPerS, l.PrefixHits())
	}
	for range 10 {
		c.pass(time.Second)
		c.report("us", nil)
	}
	if l := c.look().Cluster("us-a", "m"); l.TokensPerS != 0 || l.PrefixHits() != -1 {
		t.Errorf("when nothing ends any more: %v tokens/s, %v found", l.TokensPerS, l.PrefixHits())
	}
}

// What was found is never more than what was looked up, whatever a router says; a report that tells of pages alone,
// without a request, counts too.
func TestPrefixHitsOfARouterThatSaysNonsense(t *testing.T) {
	c := newClock()
	c.report("us", func(r *routerpb.Report) {
		r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{Cluster: "us-a", Model: "m", Scraped: true, PrefixTokens: 10, CachedTokens: 1 << 60})
	})
	if got := c.look().Cluster("us-a", "m").PrefixHits(); got != 1 {
		t.Errorf("%v", got)
	}
}
