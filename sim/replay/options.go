package replay

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"anabranch/api/fleet"
)

// API is which of OpenAI's APIs prompts are sent by.
type API string

// The APIs.
const (
	// Chat is /v1/chat/completions, with the prompt as the one message of a user. A chat template adds
	// some tokens to it.
	Chat API = "chat"
	// Completions is /v1/completions, with the prompt as it is.
	Completions API = "completions"
)

// Options of a replay. URL must be set; the zero value of the others is useful.
type Options struct {
	// URL of the target without the path, e.g. http://127.0.0.1:8101.
	URL string
	// URLs of regions that have a target of their own, in preference to URL.
	URLs map[fleet.RegionID]string
	// API; empty: Chat.
	API API
	// Key is the API key that is sent, and Keys those of tenants, in preference. Empty: none.
	Key  string
	Keys map[fleet.TenantID]string
	// Model is asked for by requests that name none.
	Model fleet.ModelID
	// Speedup divides the times of the workload, those of thinking too. 0: 1.
	Speedup float64
	// InFlight is how many requests may be on their way at once; more wait their turn, and that is
	// reported. 0: 1024.
	InFlight int
	// Timeout is the longest that a request may take, from when it is sent to its last byte. 0: 10 min.
	Timeout time.Duration
	// IgnoreEOS asks for answers of just the workload's lengths, by vLLM's parameters ignore_eos and
	// min_tokens. OpenAI itself refuses those; without them answers have at most that length.
	IgnoreEOS bool
	// Priority sends each request's priority as X-Anabranch-Priority; routers let it lower a tenant's
	// tier, never raise it.
	Priority bool
	// Transport sends requests. nil: one of its own, which ignores the environment's proxies.
	Transport http.RoundTripper
}

func (o Options) withDefaults() Options {
	if o.API == "" {
		o.API = Chat
	}
	if o.Speedup == 0 {
		o.Speedup = 1
	}
	if o.InFlight == 0 {
		o.InFlight = 1024
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	return o
}

// Validate names the field that is wrong, and the fix.
func (o Options) Validate() error {
	o = o.withDefaults()
	if o.URL == "" && len(o.URLs) == 0 {
		return errors.New("url: is empty: set the target, e.g. http://127.0.0.1:8101")
	}
	if err := checkURL(o.URL); err != nil && o.URL != "" {
		return fmt.Errorf("url: %w", err)
	}
	for region, target := range o.URLs {
		if err := checkURL(target); err != nil {
			return fmt.Errorf("urls[%s]: %w", region, err)
		}
	}
	switch {
	case o.API != Chat && o.API != Completions:
		return fmt.Errorf("api: is %q: set %s or %s", o.API, Chat, Completions)
	case !(o.Speedup >= 1e-3 && o.Speedup <= 1e6):
		return fmt.Errorf("speedup: is %v: set 0.001 to a million", o.Speedup)
	case o.InFlight < 1 || o.InFlight > 1_000_000:
		return fmt.Errorf("inFlight: is %d: set 1 to a million", o.InFlight)
	case o.Timeout < time.Millisecond:
		return fmt.Errorf("timeout: is %v: set a millisecond or more", o.Timeout)
	}
	return nil
}

// checkURL says what is wrong with a target. Its error does not repeat it, for it may hold a secret.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("is not http://host:port or https://host, with or without a path, and nothing else")
	}
	return nil
}
