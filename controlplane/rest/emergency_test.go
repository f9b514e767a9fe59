package rest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/controlplane/emergency"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/state/statepb"
)

// alarm is a node with two regions, a book of signed orders and Ann's key to sign them with.
type alarm struct {
	*double
	private ed25519.PrivateKey
}

func alarmed(t *testing.T) *alarm {
	t.Helper()
	a := &alarm{private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	line := signed.Key{Name: "ann", Public: a.private.Public().(ed25519.PublicKey)}.String() //nolint:forcetypeassert // it is
	if err := os.WriteFile(keys, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := signed.OpenRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	a.double = newDouble(t, func(o *Options) {
		book, err := emergency.New(emergency.Options{
			Dir: dir, Keys: ring, View: o.View, Led: func() bool { return false }, Now: o.Now, Logger: slog.New(slog.DiscardHandler),
			Propose: func(context.Context, *statepb.Command) (*statepb.Outcome, error) { return nil, errors.New("not asked") },
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Emergency = book
	})
	a.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}})
	a.seed("Region us {}", "Region eu {}", "Model m {}",
		"Cluster us-a {region: us, models: [m], endpoints: [{id: e, url: 'http://u', class: h100}]}",
		"Cluster eu-a {region: eu, models: [m], endpoints: [{id: e, url: 'http://e', class: h100}]}")
	return a
}

// sign is the body of a signed message.
func (a *alarm) sign(p *routerpb.SignedPayload) string {
	a.t.Helper()
	m, err := signed.Sign(a.private, p)
	if err != nil {
		a.t.Fatal(err)
	}
	return messageOf(a.t, m)
}

func messageOf(t *testing.T, m *routerpb.SignedOrder) string {
	t.Helper()
	text, err := json.Marshal(SignedAsk{
		Payload: base64.StdEncoding.EncodeToString(m.GetPayload()), Key: m.GetKey(), Signature: base64.StdEncoding.EncodeToString(m.GetSignature()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (a *alarm) payload(counter uint64, kind, target string) *routerpb.SignedPayload {
	now := a.now()
	return &routerpb.SignedPayload{ClusterId: "c-1", Counter: counter, Order: &routerpb.Order{
		Kind: kind, Target: target, Actor: "-", Reason: "test", AtUnixMs: now.UnixMilli(), ExpiresUnixMs: now.Add(time.Hour).UnixMilli(),
	}}
}

func TestEachKindOfOrderIsGivenByQuorum(t *testing.T) {
	a := alarmed(t)
	a.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "us-a", Region: "us"}},
	}}}})
	table := a.current().Table().GetRef().GetRevision()
	for body, words := range map[string]string{
		`{"kind":"evacuate","target":"region/us","for":"30m","reason":"x"}`:     "evacuate region/us",
		`{"kind":"restore","target":"cluster/eu-a","reason":"x"}`:               "restore cluster/eu-a",
		`{"kind":"stop-drills","reason":"x"}`:                                   "stop-drills",
		`{"kind":"shed","priority":0,"reason":"x"}`:                             "shed 0",
		`{"kind":"freeze","for":"24h","reason":"x"}`:                            "freeze",
		fmt.Sprintf(`{"kind":"revert","revision":%d,"reason":"x"}`, table):      fmt.Sprintf("revert %d", table),
		fmt.Sprintf(`{"kind":"revert","revision":%d, "reason":"again"}`, table): fmt.Sprintf("revert %d", table),
	} {
		var got EmergencyOrder
		answer := a.do("operator", "POST", "/v1/emergency", body).want(201, "")
		answer.into(&got)
		if got.String() != words || got.Actor == "" || got.Door != "controlplane" || answer.header.Get("Location") != "/v1/emergency/"+got.ID {
			t.Errorf("%s gives %+v at %s", body, got, answer.header.Get("Location"))
		}
		var again EmergencyOrder
		a.do("viewer", "GET", "/v1/emergency/"+got.ID, "").want(200, "").into(&again)
		if again.String() != words {
			t.Errorf("it is %+v when asked for", again)
		}
	}
	var list List[EmergencyOrder]
	a.do("viewer", "GET", "/v1/emergency", "").want(200, "").into(&list)
	if len(list.Items) != 7 {
		t.Errorf("%d orders are listed: %+v", len(list.Items), list.Items)
	}
	for _, o := range list.Items {
		a.do("operator", "DELETE", "/v1/emergency/"+o.ID, "").want(204, "")
		a.do("viewer", "GET", "/v1/emergency/"+o.ID, "").want(404, "not_found")
		a.do("operator", "DELETE", "/v1/emergency/"+o.ID, "").want(404, "not_found")
	}
}

// TestWhatIsWrongWithAnOrderIsNamed: each refusal is a problem document that names the field.
func TestWhatIsWrongWithAnOrderIsNamed(t *testing.T) {
	a := alarmed(t)
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
		field  string // that the errors name; empty: none
	}{
		"no document":         {`{`, 400, "malformed", ""},
		"two documents":       {`{"kind":"freeze","reason":"x"}{}`, 400, "malformed", ""},
		"an unknown field":    {`{"kind":"freeze","raeson":"x"}`, 400, "malformed", ""},
		"no kind":             {`{"reason":"x"}`, 422, "invalid", "kind"},
		"an unknown kind":     {`{"kind":"explode","reason":"x"}`, 422, "invalid", "kind"},
		"no reason":           {`{"kind":"freeze","reason":" "}`, 422, "invalid", "reason"},
		"a reason of lines":   {`{"kind":"freeze","reason":"a\nb"}`, 422, "invalid", "reason"},
		"no target":           {`{"kind":"evacuate","reason":"x"}`, 422, "invalid", "target"},
		"a bare target":       {`{"kind":"evacuate","target":"us","reason":"x"}`, 422, "invalid", "target"},
		"a target that's not": {`{"kind":"evacuate","target":"region/mars","reason":"x"}`, 404, "not_found", ""},
		"a target too many":   {`{"kind":"freeze","target":"region/us","reason":"x"}`, 422, "invalid", "target"},
		"no revision":         {`{"kind":"revert","reason":"x"}`, 422, "invalid", "revision"},
		"a table that's gone": {`{"kind":"revert","revision":999,"reason":"x"}`, 404, "not_found", ""},
		"an epoch too many":   {`{"kind":"shed","priority":1,"epoch":1,"reason":"x"}`, 422, "invalid", "epoch"},
		"no priority":         {`{"kind":"shed","reason":"x"}`, 422, "invalid", "priority"},
		"beyond the top":      {`{"kind":"shed","priority":101,"reason":"x"}`, 422, "invalid", "priority"},
		"a priority too many": {`{"kind":"freeze","priority":1,"reason":"x"}`, 422, "invalid", "priority"},
		"no duration":         {`{"kind":"freeze","for":"long","reason":"x"}`, 422, "invalid", "for"},
		"no time":             {`{"kind":"freeze","for":"0s","reason":"x"}`, 422, "invalid", "for"},
		"over a day":          {`{"kind":"freeze","for":"25h","reason":"x"}`, 422, "invalid", "for"},
	} {
		t.Run(name, func(t *testing.T) {
			var p Problem
			answer := a.do("operator", "POST", "/v1/emergency", c.body).want(c.status, c.code)
			answer.into(&p)
			named := ""
			if len(p.Errors) > 0 {
				named = p.Errors[0].Field
			}
			if named != c.field || p.Detail == "" || answer.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("it names %q, want %q: %+v", named, c.field, p)
			}
		})
	}
	if n := len(a.current().Orders(a.now())); n != 0 {
		t.Errorf("%d orders hold", n)
	}
	a.do("viewer", "POST", "/v1/emergency", `{"kind":"freeze","reason":"x"}`).want(403, "forbidden")
	a.do("", "POST", "/v1/emergency", `{"kind":"freeze","reason":"x"}`).want(401, "unauthenticated")
	a.failing(forward.ErrNoLeader)
	a.do("operator", "POST", "/v1/emergency", `{"kind":"freeze","reason":"x"}`).want(503, "no_leader")
	a.do("viewer", "GET", "/v1/emergency", "").want(200, "") // it needs no leader
}

func TestSignedOrdersNeedNoTokenAndNoLeader(t *testing.T) {
	a := alarmed(t)
	a.failing(forward.ErrNoLeader)
	var what SignedFor
	if a.do("", "GET", "/v1/emergency/signed", "").want(200, "").into(&what); what.ClusterID != "c-1" {
		t.Errorf("orders are for %q", what.ClusterID)
	}
	body := a.sign(a.payload(3, "evacuate", "region/us"))
	var taken SignedTaken
	a.do("", "POST", "/v1/emergency/signed", body).want(201, "").into(&taken)
	if !taken.Fresh || taken.Actor != "ann" || taken.ID == "" || !taken.Expires.Equal(a.now().Add(time.Hour)) || taken.OverruledBy != "" {
		t.Errorf("taken %+v", taken)
	}
	if a.do("", "POST", "/v1/emergency/signed", body).want(200, "").into(&taken); taken.Fresh {
		t.Error("it is fresh twice")
	}
	var o EmergencyOrder
	if a.do("viewer", "GET", "/v1/emergency/"+taken.ID, "").want(200, "").into(&o); o.Door != "signed" || o.Actor != "ann" {
		t.Errorf("listed as %+v", o)
	}
	a.do("", "POST", "/v1/emergency/signed", a.sign(a.payload(4, "restore", "region/us"))).want(201, "")
	a.advance(time.Second)
	a.do("", "POST", "/v1/emergency/signed", a.sign(a.payload(5, "evacuate", "region/us"))).want(201, "").into(&taken)
	if taken.OverruledBy == "" {
		t.Error("who evacuates is not told that a restore holds instead")
	}
	a.do("", "POST", "/v1/emergency/signed", a.sign(&routerpb.SignedPayload{ClusterId: "c-1", Counter: 6, Cancel: taken.ID})).want(201, "")
	a.do("viewer", "GET", "/v1/emergency/"+taken.ID, "").want(404, "not_found")
}

func TestWhatIsWrongWithASignedOrderIsNamed(t *testing.T) {
	a := alarmed(t)
	a.do("", "POST", "/v1/emergency/signed", a.sign(a.payload(1, "freeze", ""))).want(201, "")
	good, err := signed.Sign(a.private, a.payload(2, "freeze", ""))
	if err != nil {
		t.Fatal(err)
	}
	other, stale, foreign, odd := bodyParts(good), a.payload(8, "freeze", ""), a.payload(9, "freeze", ""), a.payload(10, "explode", "")
	other.Signature = append([]byte{good.GetSignature()[0] ^ 1}, good.GetSignature()[1:]...)
	stale.Order.AtUnixMs, stale.Order.ExpiresUnixMs = a.now().Add(-2*time.Hour).UnixMilli(), a.now().Add(-time.Hour).UnixMilli()
	foreign.ClusterId = "c-2"
	long := a.payload(11, "freeze", "")
	long.Order.ExpiresUnixMs = a.now().Add(48 * time.Hour).UnixMilli()
	early := a.payload(12, "freeze", "")
	early.Order.AtUnixMs, early.Order.ExpiresUnixMs = a.now().Add(time.Hour).UnixMilli(), a.now().Add(2*time.Hour).UnixMilli()
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
		field  string
	}{
		"no document":         {`{`, 400, "malformed", ""},
		"not base64":          {`{"payload":"?","key":"k","signature":""}`, 400, "invalid_request", "payload"},
		"a signature of none": {`{"payload":"","key":"k","signature":"?"}`, 400, "invalid_request", "signature"},
		"an unknown key":      {`{"payload":"","key":"k","signature":""}`, 403, "signature_refused", "key"},
		"a changed signature": {messageOf(t, other), 403, "signature_refused", "signature"},
		"another cluster":     {a.sign(foreign), 403, "signature_refused", "payload.clusterId"},
		"a counter used":      {a.sign(a.payload(1, "stop-drills", "")), 409, "order_over", "payload.counter"},
		"one that is over":    {a.sign(stale), 409, "order_over", "payload.order.expires"},
		"an unknown kind":     {a.sign(odd), 422, "order_invalid", "payload.order.kind"},
		"an unknown target":   {a.sign(a.payload(13, "evacuate", "mars")), 422, "order_invalid", "payload.order.target"},
		"too long":            {a.sign(long), 422, "order_invalid", "payload.order.expires"},
		"yet to come":         {a.sign(early), 422, "order_invalid", "payload.order.expires"},
		"no counter":          {a.sign(a.payload(0, "freeze", "")), 422, "order_invalid", "payload"},
		"another's order":     {a.sign(&routerpb.SignedPayload{ClusterId: "c-1", Counter: 14, Cancel: "sother-1"}), 422, "order_invalid", "payload"},
	} {
		t.Run(name, func(t *testing.T) {
			a.advance(time.Minute) // so that tries are not too many
			var p Problem
			a.do("", "POST", "/v1/emergency/signed", c.body).want(c.status, c.code).into(&p)
			named := ""
			if len(p.Errors) > 0 {
				named = p.Errors[0].Field
			}
			if named != c.field || p.Detail == "" {
				t.Errorf("it names %q, want %q: %+v", named, c.field, p)
			}
		})
	}
}

func bodyParts(m *routerpb.SignedOrder) *routerpb.SignedOrder {
	return &routerpb.SignedOrder{Payload: m.GetPayload(), Key: m.GetKey(), Signature: m.GetSignature()}
}

func TestWhoTriesSignaturesIsSlowedDown(t *testing.T) {
	a := alarmed(t)
	for range 1000 {
		if got := a.do("", "POST", "/v1/emergency/signed", `{"payload":"","key":"k","signature":""}`); got.status == 429 {
			if got.header.Get("Retry-After") == "" {
				t.Error("without Retry-After")
			}
			return
		}
	}
	t.Error("a thousand bad signatures came through")
}

func TestANodeThatIsOfNoControlPlaneTakesNoSignedOrder(t *testing.T) {
	d := newDouble(t)
	d.do("", "GET", "/v1/emergency/signed", "").want(503, "catching_up")
	d.do("", "POST", "/v1/emergency/signed", `{"payload":"","key":"k","signature":""}`).want(503, "catching_up")
}

// TestOrdersAreSeenEverywhere: at regions, clusters, the fleet and the status, by whichever way they were given.
func TestOrdersAreSeenEverywhere(t *testing.T) {
	a := alarmed(t)
	a.do("", "POST", "/v1/emergency/signed", a.sign(a.payload(1, "evacuate", "region/us"))).want(201, "")
	a.do("operator", "POST", "/v1/emergency", `{"kind":"evacuate","target":"cluster/eu-a","reason":"x","for":"1h"}`).want(201, "")
	type seen struct {
		Emergency string
		Status    struct{ Emergency string }
		Name      string
	}
	region := "evacuate region/us by ann until " + a.now().Add(time.Hour).UTC().Format(time.RFC3339)
	for path, want := range map[string]string{
		"/v1/regions/us": region, "/v1/regions/eu": "", "/v1/clusters/us-a": region, "/v1/clusters/eu-a": "evacuate cluster/eu-a by ",
	} {
		var got seen
		a.do("viewer", "GET", path, "").want(200, "").into(&got)
		if words := got.Status.Emergency; (words == "") != (want == "") || !strings.HasPrefix(words, want) {
			t.Errorf("%s says %q, want %q", path, words, want)
		}
	}
	var fleet struct{ Regions, Clusters []seen }
	a.do("viewer", "GET", "/v1/fleet", "").want(200, "").into(&fleet)
	told := map[string]string{}
	for _, x := range append(fleet.Regions, fleet.Clusters...) {
		told[x.Name] = x.Emergency
	}
	if told["us"] == "" || told["us-a"] != told["us"] || told["eu"] != "" || told["eu-a"] == "" {
		t.Errorf("the fleet says %v", told)
	}
	var status struct{ Emergency []EmergencyOrder }
	a.do("viewer", "GET", "/v1/status", "").want(200, "").into(&status)
	if len(status.Emergency) != 2 {
		t.Errorf("the status says %+v", status.Emergency)
	}
	a.advance(time.Hour)
	var got seen
	a.do("viewer", "GET", "/v1/regions/us", "").want(200, "").into(&got)
	if got.Status.Emergency != "" {
		t.Errorf("an order that is over is told of: %q", got.Status.Emergency)
	}
}
