package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
)

// fetching is a running holder of keys whose clock a test moves.
type fetching struct {
	*Keys
	*Checker
	t   *testing.T
	now atomic.Int64 // Unix ms
}

func startKeys(t *testing.T) *fetching {
	t.Helper()
	f := &fetching{t: t}
	f.now.Store(start.UnixMilli())
	var err error
	if f.Keys, err = NewKeys(KeysOptions{
		Now: f.clock, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	f.Checker = New(f.Keys)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

func (f *fetching) clock() time.Time { return time.UnixMilli(f.now.Load()) }

func (f *fetching) advance(d time.Duration) {
	f.now.Add(d.Milliseconds())
	f.nudge()
}

func (f *fetching) eventually(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within 20 s", what)
		}
		<-time.After(2 * time.Millisecond) // look again
	}
}

func TestKeysAreFetchedBesideRequests(t *testing.T) {
	i := newIssuer(t)
	f := startKeys(t)
	tab := tableOf(t, 1, tenant("acme", &routerpb.JwtRule{JwksUrl: i.URL + "/keys"}))
	token := i.sign("ec", "ec", jose.ES256, claims(nil))
	takes := func(token string) bool {
		got, err := f.Tenant(tab, token, start)
		if err != nil && !errors.Is(err, ErrNoKey) {
			t.Fatal(err)
		}
		return got != nil
	}
	if takes(token) {
		t.Fatal("taken before any key was fetched")
	}
	f.Sync(tab)
	f.eventually("the keys", func() bool { return takes(token) })

	// The issuer goes away, and what is known stays.
	i.show(true)
	before := i.times()
	f.advance(2 * Fresh)
	f.eventually("another look", func() bool { return i.times() > before })
	if !takes(token) {
		t.Error("a token is refused because its issuer is away")
	}
	f.eventually("the failure to be counted", func() bool { return testutil.ToFloat64(f.fetches.WithLabelValues("failed")) >= 1 })

	// It comes back with new keys only.
	i.show(false, "ed")
	f.advance(2 * Retry)
	f.eventually("the old key to count no more", func() bool { return !takes(token) })
	if !takes(i.sign("ed", "ed", jose.EdDSA, claims(nil))) {
		t.Error("the new key doesn't count")
	}

	// Nobody wants them any more.
	f.Sync(tableOf(t, 2))
	if f.at(i.URL+"/keys") != nil {
		t.Error("keys that nobody wants are kept")
	}
}

func TestAnUnknownKeyIsLookedForButNotMoreOftenThanItMay(t *testing.T) {
	i := newIssuer(t)
	i.show(false, "rsa")
	f := startKeys(t)
	tab := tableOf(t, 1, tenant("acme", &routerpb.JwtRule{JwksUrl: i.URL + "/keys"}))
	f.Sync(tab)
	f.eventually("the first keys", func() bool { return f.at(i.URL+"/keys") != nil })
	i.show(false, "rsa", "ec")
	token := i.sign("ec", "ec", jose.ES256, claims(nil))
	for range 100 {
		if _, err := f.Tenant(tab, token, start); !errors.Is(err, ErrNoKey) {
			t.Fatalf("taken, or %v, without another look", err)
		}
	}
	if n := i.times(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
	f.now.Add(Retry.Milliseconds())
	f.eventually("the new key", func() bool {
		_, err := f.Tenant(tab, token, start)
		return err == nil
	})
	if n := i.times(); n != 2 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// TestAnUnknownKeyIsLookedForAtItsIssuer: whoever sends tokens with keys that don't exist makes routers ask
// nobody else.
func TestAnUnknownKeyIsLookedForAtItsIssuer(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	i.show(false, "rsa")
	f := startKeys(t)
	tab := tableOf(t, 1,
		tenant("acme", &routerpb.JwtRule{JwksUrl: i.URL + "/keys"}),
		tenant("other", &routerpb.JwtRule{Issuer: "https://other.example", JwksUrl: other.URL + "/keys"}))
	f.Sync(tab)
	f.eventually("the first keys", func() bool { return f.at(i.URL+"/keys") != nil && f.at(other.URL+"/keys") != nil })
	token := i.sign("ec", "ec", jose.ES256, claims(nil))
	for look := 2; look < 4; look++ {
		f.now.Add(Retry.Milliseconds())
		if _, err := f.Tenant(tab, token, start); !errors.Is(err, ErrNoKey) {
			t.Fatal(err)
		}
		// At the end of the look, not of the question: what a look sets ends what was asked for during it.
		f.eventually("another look", func() bool { return i.times() == look && f.version.Load() == uint64(look+1) })
	}
	if n := other.times(); n != 1 {
		t.Errorf("the other issuer was asked %d times", n)
	}
}

// TestTheFirstKeysOfALongSetAreUsed: a token that names no key is tried with all of them.
func TestTheFirstKeysOfALongSetAreUsed(t *testing.T) {
	var all []jose.JSONWebKey
	for range maxKeys + 5 {
		all = append(all, jose.JSONWebKey{Key: signers()["ec"].Public(), KeyID: strconv.Itoa(len(all))})
	}
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: all})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(b); err != nil || len(got.Keys) != maxKeys || got.Keys[maxKeys-1].KeyID != strconv.Itoa(maxKeys-1) {
		t.Errorf("%d keys, %v", len(got.Keys), err)
	}
}

func TestWhatIsNoKeySetIsNotTaken(t *testing.T) {
	i := newIssuer(t)
	f := startKeys(t)
	for name, url := range map[string]string{
		"it redirects": i.URL + "/elsewhere", "longer than": i.URL + "/long", "refused": "http://127.0.0.1:1/keys",
	} {
		if set, err := f.fetch(t.Context(), url); err == nil || set != nil {
			t.Errorf("%s: %v, %v", name, set, err)
		}
	}
	for _, body := range []string{"", "[]", "{}", `{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}`} {
		if set, err := parse([]byte(body)); err == nil || set != nil {
			t.Errorf("%q: %v", body, set)
		}
	}
}
