package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

const (
	sumA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sumB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// newGroup is a fleet with two quota stores and an organisation of two tenants.
func newGroup(t testing.TB) *bench {
	b := newBench(t)
	b.write("Region", "us", "zone: us\n  peerURLs: [https://us:1]\n  rttMs: {eu: 80, ap: 160}\n  quotaStore: {addresses: ['redis.us:6379'], sentinelMaster: m, username: u, passwordFile: /p, tls: true, caFile: /ca}")
	b.write("Region", "eu", "zone: eu\n  peerURLs: [https://eu:1]\n  rttMs: {ap: 120}\n  quotaStore: {addresses: ['redis.eu:6379'], cluster: true}")
	b.write("Tenant", "acme", "organization: group\n  apiKeys: [{id: k, sha256: "+sumA+"}, {id: k-20261130-0812, sha256: "+sumB+", expiresAt: 2027-01-31T00:00:00Z}]")
	b.write("Tenant", "lab", "organization: group")
	b.write("Tenant", "solo", "{}")
	b.write("Quota", "g", "organization: group\n  homeRegion: us\n  degraded: closed\n  limits: [{kind: money-per-day, usd: 1.5, timeZone: Europe/Berlin}, {kind: concurrent-requests, max: 5}]")
	b.write("Quota", "k", "tenant: acme\n  key: k\n  model: m\n  shadow: true\n  overrun: cut\n  limits: [{kind: requests, perMinute: 60, burst: 6}]")
	b.write("Quota", "s", "tenant: solo\n  limits: [{kind: total-tokens, perMinute: 100}]")
	return b
}

func (b *bench) organisation(id string) *routerpb.Organisation {
	b.t.Helper()
	for _, o := range b.table.GetOrganisations() {
		if o.GetId() == id {
			return o
		}
	}
	b.t.Fatalf("no organisation %s among %v", id, b.table.GetOrganisations())
	return nil
}

func TestQuotasBecomeBuckets(t *testing.T) {
	b := newGroup(t)
	b.plan()
	want := []*routerpb.Quota{
		{
			Id: "g/money-per-day", Organisation: "group", Kind: "money", Limit: 1_500_000, Burst: 1_500_000, Degraded: "closed", Share: 1.0 / 3,
			Calendar: "day", TimeZone: "Europe/Berlin", WarnPercent: []uint32{50, 80, 100},
		},
		{Id: "g/concurrent-requests", Organisation: "group", Kind: "concurrent-requests", Limit: 5, Burst: 5, Degraded: "closed", Share: 1.0 / 3},
		{
			Id: "k/requests~", Organisation: "group", Tenant: "acme", Model: "m", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 6, Degraded: "share",
			Share: 1.0 / 3, Shadow: true, Overrun: "cut", KeySha256: [][]byte{[]byte(strings.Repeat("\xaa", 32)), []byte(strings.Repeat("\xbb", 32))},
		},
		{Id: "s/total-tokens", Organisation: "solo", Tenant: "solo", Kind: "total-tokens", Limit: 100, PeriodMs: 60_000, Burst: 100, Degraded: "share", Share: 1.0 / 3},
	}
	if len(b.table.Quotas) != len(want) {
		t.Fatalf("quotas %v", b.table.Quotas)
	}
	for i, q := range want {
		if !proto.Equal(b.table.Quotas[i], q) {
			t.Errorf("%v, want %v", b.table.Quotas[i], q)
		}
	}
	for i, of := range []string{"group", "group", ""} {
		if got := b.table.Tenants[i].GetOrganisation(); got != of {
			t.Errorf("tenant %s is of %q, want %q", b.table.Tenants[i].GetId(), got, of)
		}
	}
	store := &routerpb.QuotaStore{Addresses: []string{"redis.us:6379"}, Master: "m", Username: "u", PasswordFile: "/p", Tls: true, CaFile: "/ca"}
	if us := b.table.Regions[2]; !proto.Equal(us.GetQuotaStore(), store) || b.table.Regions[0].GetQuotaStore() != nil {
		t.Errorf("quota store of us %v, of ap %v", us.GetQuotaStore(), b.table.Regions[0].GetQuotaStore())
	}
}

func TestOrganisationsAreNumberedByTheTable(t *testing.T) {
	b := newGroup(t)
	b.table = nil
	b.plan()
	group, solo := b.organisation("group"), b.organisation("solo")
	first := int64(1)<<40 + 1
	want := &routerpb.Organisation{
		Id: "group", Home: "us", Epoch: first, Version: first, Young: true, ColdPercent: 20, SinceUnixMs: b.now.UnixMilli(),
		Shares: []*routerpb.Share{{Region: "ap", Parts: 333_333}, {Region: "eu", Parts: 333_333}, {Region: "us", Parts: 333_333}},
	}
	if !proto.Equal(group, want) {
		t.Errorf("got %v, want %v", group, want)
	}
	if solo.GetHome() != "" || len(b.table.Organisations) != 2 {
		t.Errorf("solo %v of %d", solo, len(b.table.Organisations))
	}

	b.now = b.now.Add(time.Second)
	if b.plan().Changed {
		t.Error("the same quotas are a change")
	}
	revision := int64(b.table.GetRef().GetRevision())
	b.write("Quota", "s", "tenant: solo\n  limits: [{kind: total-tokens, perMinute: 200}]")
	if !b.plan().Changed {
		t.Error("a quota is no change")
	}
	if got := b.organisation("solo"); got.GetVersion() != 1<<40+revision+1 || got.GetEpoch() != first {
		t.Errorf("its quota changed at table %d: %v", revision, got)
	}
	if got := b.organisation("group"); got.GetVersion() != first {
		t.Errorf("another's quota changed: %v", got)
	}
}

func TestOrganisationsGrowUp(t *testing.T) {
	b := newGroup(t)
	b.plan()
	since := b.organisation("group").GetSinceUnixMs()
	b.now = b.now.Add(youth - time.Second)
	b.plan()
	if o := b.organisation("group"); !o.GetYoung() || o.GetSinceUnixMs() != since {
		t.Errorf("just before: %v", o)
	}
	b.now = b.now.Add(time.Second)
	if !b.plan().Changed {
		t.Error("growing up is no change")
	}
	if o := b.organisation("group"); o.GetYoung() || o.GetSinceUnixMs() != since {
		t.Errorf("after: %v", o)
	}
}

func TestAnotherHomeIsAnotherEpoch(t *testing.T) {
	b := newGroup(t)
	b.plan()
	before, revision := b.organisation("group"), int64(b.table.GetRef().GetRevision())
	b.write("Quota", "g", "organization: group\n  homeRegion: eu\n  degraded: closed\n  limits: [{kind: money-per-day, usd: 1.5, timeZone: Europe/Berlin}, {kind: concurrent-requests, max: 5}]")
	b.now = b.now.Add(time.Minute)
	b.plan()
	o := b.organisation("group")
	if o.GetHome() != "eu" || o.GetFormerHome() != "us" || !o.GetMoved() || o.GetEpoch() != 1<<40+revision+1 || o.GetMovedUnixMs() != b.now.UnixMilli() || o.GetColdPercent() != 0 || o.GetYoung() {
		t.Errorf("moved: %v", o)
	}
	if o.GetVersion() != before.GetVersion() {
		t.Errorf("the limits are the same, and the version is %d after %d", o.GetVersion(), before.GetVersion())
	}
	b.now = b.now.Add(settling)
	b.plan()
	if later := b.organisation("group"); later.GetColdPercent() != 20 || !later.GetMoved() || later.GetEpoch() != o.GetEpoch() {
		t.Errorf("settled: %v", later)
	}
	// Back again, and the region that it comes from loses its store.
	b.write("Quota", "g", "organization: group\n  limits: [{kind: concurrent-requests, max: 5}]")
	b.plan()
	if back := b.organisation("group"); back.GetHome() != "" || back.GetFormerHome() != "eu" || !back.GetMoved() || back.GetEpoch() <= o.GetEpoch() {
		t.Errorf("back: %v", back)
	}
	b.write("Region", "eu", "zone: eu\n  peerURLs: [https://eu:1]\n  rttMs: {ap: 120}")
	b.plan()
	if back := b.organisation("group"); back.GetFormerHome() != "" || back.GetMoved() {
		t.Errorf("with nobody to tell: %v", back)
	}
}

func TestARestoreRaisesAllNumbers(t *testing.T) {
	b := newGroup(t)
	b.plan()
	before := b.table
	out := Compute(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: before, Now: b.now, Warm: true, Epoch: 2})
	for i, o := range out.Table.GetOrganisations() {
		was := before.GetOrganisations()[i]
		if want := int64(2)<<40 + int64(before.GetRef().GetRevision()) + 1; o.GetEpoch() != want || o.GetVersion() != want {
			t.Errorf("%v, want %d", o, want)
		}
		if o.GetSinceUnixMs() != was.GetSinceUnixMs() || o.GetMoved() != was.GetMoved() {
			t.Errorf("%v forgets %v", o, was)
		}
	}
	for _, epoch := range []uint64{1 << 13, 1 << 60} {
		if n := after(epoch, 1<<50); n <= 0 || n >= 1<<53 {
			t.Errorf("epoch %d gives %d", epoch, n)
		}
	}
}

func TestAnOrganisationThatComesBackIsNumberedAbove(t *testing.T) {
	b := newGroup(t)
	b.plan()
	before := b.organisation("solo")
	b.remove("Quota", "s")
	b.plan()
	b.write("Quota", "s", "tenant: solo\n  limits: [{kind: total-tokens, perMinute: 100}]")
	b.plan()
	if o := b.organisation("solo"); o.GetEpoch() <= before.GetEpoch() || o.GetVersion() <= before.GetVersion() || !o.GetYoung() {
		t.Errorf("first %v, then %v", before, o)
	}
}

func TestWhatRoutersWouldRefuseIsLeftOut(t *testing.T) {
	b := newGroup(t)
	b.write("Quota", "adapter", "tenant: solo\n  model: lora\n  limits: [{kind: requests, perMinute: 1}]")
	b.write("Quota", "nobody", "tenant: nobody\n  limits: [{kind: requests, perMinute: 1}]")
	b.write("Quota", "noone", "organization: noone\n  limits: [{kind: requests, perMinute: 1}]")
	b.write("Quota", "nokey", "tenant: acme\n  key: gone\n  limits: [{kind: requests, perMinute: 1}]")
	b.write("Quota", "nohome", "tenant: solo\n  homeRegion: ap\n  limits: [{kind: requests, perMinute: 1}]")
	b.write("Quota", "large", "tenant: solo\n  limits: [{kind: requests, perMinute: 4000000000000000}]")
	for i := range 20 {
		b.write("Quota", fmt.Sprintf("z%02d", i), "tenant: solo\n  limits: [{kind: requests, perMinute: 1}, {kind: input-tokens, perMinute: 1}]")
	}
	b.plan()
	n := 0
	for _, q := range b.table.GetQuotas() {
		name, _, _ := strings.Cut(q.GetId(), "/")
		if slices.Contains([]string{"adapter", "nobody", "noone", "nokey", "large"}, name) {
			t.Errorf("%v is in the table", q)
		}
		if q.GetTenant() == "solo" {
			n++
		}
	}
	if n != 30 { // s, nohome, and of the 20 as many as there is room for beside large
		t.Errorf("%d limits of solo", n)
	}
	if o := b.organisation("solo"); o.GetHome() != "" {
		t.Errorf("home without a store: %v", o)
	}
}

func TestOlderNodesGetNoOrganisations(t *testing.T) {
	b := newGroup(t)
	out := Compute(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Now: b.now, Warm: true, Older: true})
	if len(out.Table.GetOrganisations()) != 0 || len(out.Table.GetQuotas()) == 0 {
		t.Errorf("table %v", out.Table)
	}
	for _, q := range out.Table.GetQuotas() {
		if q.GetOrganisation() != "" {
			t.Errorf("quota %v", q)
		}
	}
	for _, x := range out.Table.GetTenants() {
		if x.GetOrganisation() != "" {
			t.Errorf("tenant %v", x)
		}
	}
}

// Whatever is done, numbers only rise, stay while nothing changes, and shares are never more than the whole.
func TestNumbersOfOrganisationsRise(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newGroup(t)
		b.plan()
		epoch, seen := uint64(1), map[string]*routerpb.Organisation{}
		for range 12 {
			home := rapid.SampledFrom([]string{"us", "eu", "''"}).Draw(rt, "home")
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				b.write("Quota", "g", fmt.Sprintf("organization: group\n  homeRegion: %s\n  limits: [{kind: requests, perMinute: %d}]", home, rapid.IntRange(1, 3).Draw(rt, "limit")))
			case 1:
				b.remove("Quota", "g")
			case 2:
				epoch += rapid.Uint64Range(1, 2).Draw(rt, "restore")
			case 3:
				b.write("Tenant", "lab", rapid.SampledFrom([]string{"{}", "organization: group"}).Draw(rt, "of"))
			case 4:
				b.now = b.now.Add(7 * time.Minute)
			}
			usage := map[string]Usage{"group": {"us": rapid.Float64Range(0, 9).Draw(rt, "us"), "eu": 1}}
			out := Compute(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: b.table, Now: b.now, Warm: true, Epoch: epoch, Usage: usage})
			again := Compute(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: stamped(out.Table, b.table, epoch), Now: b.now, Warm: true, Epoch: epoch, Usage: usage})
			if again.Changed {
				rt.Fatal("the same again is a change")
			}
			if out.Changed {
				b.table = stamped(out.Table, b.table, epoch)
			}
			for _, o := range b.table.GetOrganisations() {
				was := seen[o.GetId()]
				if o.GetEpoch() < was.GetEpoch() || o.GetVersion() < was.GetVersion() || o.GetEpoch() >= 1<<53 {
					rt.Fatalf("%v after %v", o, was)
				}
				if was != nil && o.GetHome() != was.GetHome() && o.GetEpoch() == was.GetEpoch() {
					rt.Fatalf("another home in the same epoch: %v after %v", o, was)
				}
				sum := uint32(0)
				for _, s := range o.GetShares() {
					sum += s.GetParts()
				}
				if sum > ratelimit.ShareParts || len(o.GetShares()) != 3 {
					rt.Fatalf("shares %v", o.GetShares())
				}
				seen[o.GetId()] = o
			}
		}
	})
}

// stamped is a table as its commit makes it.
func stamped(t, before *routerpb.Table, epoch uint64) *routerpb.Table {
	t = proto.CloneOf(t)
	t.Ref = &routerpb.TableRef{ClusterId: "c", Epoch: epoch, Revision: before.GetRef().GetRevision() + 3}
	return t
}

func TestQuotasHoldForAllRoutersAtOnce(t *testing.T) {
	b := newGroup(t)
	b.plan()
	beside := b.table
	b.write("Quota", "g", "organization: group\n  homeRegion: eu\n  limits: [{kind: concurrent-requests, max: 500}]")
	b.write("Quota", "new", "tenant: lab\n  limits: [{kind: requests, perMinute: 1}]")
	b.write("Tenant", "lab", "{}")
	b.write("Tenant", "acme", "organization: group\n  apiKeys: [{id: k-20261130-0812, sha256: "+sumB+"}]")
	b.write("Tenant", "later", "organization: group")
	b.remove("Tenant", "solo")
	b.remove("Quota", "s")
	b.remove("Region", "us")
	for _, c := range []string{"us-a", "us-b"} {
		b.remove("Cluster", c)
	}
	trial := Compute(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: beside, Beside: beside, Now: b.now, Warm: true}).Table

	var ids []string
	for _, q := range trial.GetQuotas() {
		ids = append(ids, q.GetId())
	}
	if got := strings.Join(ids, " "); got != "g/money-per-day g/concurrent-requests k/requests~" {
		t.Errorf("quotas %s", got)
	}
	if q := trial.GetQuotas()[1]; q.GetLimit() != 5 {
		t.Errorf("a quota of the trial holds: %v", q)
	}
	if q := trial.GetQuotas()[2]; len(q.GetKeySha256()) != 1 || q.GetKeySha256()[0][0] != 0xbb {
		t.Errorf("keys of the trial: %v", q)
	}
	of := map[string]string{}
	for _, x := range trial.GetTenants() {
		of[x.GetId()] = x.GetOrganisation()
	}
	if fmt.Sprint(of) != "map[acme:group lab:group later:group]" {
		t.Errorf("organisations of tenants %v", of)
	}
	for i, o := range trial.GetOrganisations() {
		was := beside.GetOrganisations()[i]
		if o.GetHome() != was.GetHome() || o.GetEpoch() != was.GetEpoch() || o.GetVersion() != was.GetVersion() || len(was.GetShares()) != 3 {
			t.Errorf("%v beside %v", o, was)
		}
	}
	var regions []string
	for _, r := range trial.GetRegions() {
		regions = append(regions, r.GetId())
	}
	if strings.Join(regions, " ") != "ap eu us" || trial.GetRegions()[2].GetQuotaStore() == nil {
		t.Errorf("regions %v: the home of the others' quotas is to stay", trial.GetRegions())
	}
	if len(beside.GetQuotas()) != 4 || len(beside.GetQuotas()[2].GetKeySha256()) != 2 || beside.GetTenants()[1].GetOrganisation() != "group" {
		t.Error("the other table was written to")
	}
}

func TestALimitAloneNeedsNoRollout(t *testing.T) {
	b := newGroup(t)
	b.plan()
	b.write("Quota", "s", "tenant: solo\n  limits: [{kind: total-tokens, perMinute: 200}]")
	in := Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: b.table, Beside: b.table, Now: b.now, Warm: true}
	if Compute(in).Changed {
		t.Error("a trial of other limits alone is another table")
	}
	in.Beside = nil
	if !Compute(in).Changed {
		t.Error("other limits are no other table")
	}
}
