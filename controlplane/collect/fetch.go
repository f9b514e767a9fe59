package collect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"anabranch/api/credential"
	"anabranch/api/exposition"
)

// errNoPage: the place is well, and what is there is no page of metrics that we know.
var errNoPage = errors.New("no page of known metrics")

// errNoSecrets: see [Options.Secrets].
var errNoSecrets = errors.New("the cluster wants a credential, and this node was started without --secrets-dir")

// ask makes one request and gives the answer, whose body is the caller's to close. A redirect is an
// answer: what is configured is what is asked, with its credential, and nothing else.
func (c *Collector) ask(ctx context.Context, t *target, url string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if q.URL.Scheme != "http" && q.URL.Scheme != "https" {
		return nil, fmt.Errorf("scheme %q is neither http nor https", q.URL.Scheme)
	}
	q.Header.Set("Accept", "text/plain;version=0.0.4, text/plain;q=0.5")
	q.Header.Set("User-Agent", "anabranch-controlplane")
	way := c.way
	if t.auth != (credential.Spec{}) {
		if c.o.Secrets == nil {
			return nil, errNoSecrets
		}
		secret, err := c.o.Secrets.For(t.cluster, &t.auth)
		if err != nil {
			return nil, err
		}
		if err := secret.Sign(q, nil); err != nil {
			return nil, err
		}
		if own := secret.Transport(); own != nil {
			way = own
		}
	}
	return way.RoundTrip(q)
}

// page reads a page of metrics.
func (c *Collector) page(ctx context.Context, t *target, url string, into *exposition.Page) (exposition.Load, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	resp, err := c.ask(ctx, t, url)
	if err != nil {
		return exposition.Load{}, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code == http.StatusGone, code == http.StatusNotImplemented:
		return exposition.Load{}, fmt.Errorf("%w: answered %d", errNoPage, code)
	case code >= 300 && code < 400:
		return exposition.Load{}, fmt.Errorf("answered %d, and redirects are not followed", code)
	default:
		return exposition.Load{}, fmt.Errorf("answered %d", code)
	}
	if _, err := into.ReadFrom(resp.Body); err != nil {
		return exposition.Load{}, err
	}
	if !into.Known() {
		return exposition.Load{}, errNoPage
	}
	return into.Load(), nil
}

// maxHealth is how much of an answer is read that only has to be there, in bytes, so that its connection
// can be used again.
const maxHealth = 4 << 10

// healthy says whether a place answers: anything but a server's fault will do, since a gateway that does
// not know the path is there all the same.
func (c *Collector) healthy(ctx context.Context, t *target, url string) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	resp, err := c.ask(ctx, t, url)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // what is left of it is of no interest
	_, _ = io.CopyN(io.Discard, resp.Body, maxHealth)
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("answered %d", resp.StatusCode)
	}
	return nil
}

// maxError bounds what is told of an error, in bytes.
const maxError = 256

// describe is an error for people and for other nodes.
func describe(err error, within time.Duration) string {
	var insecure *tls.CertificateVerificationError
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("no answer within %s", within)
	case errors.As(err, &insecure):
		text = "its certificate is not to be trusted: " + insecure.Err.Error()
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// result names an outcome in metrics.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, errNoPage):
		return "no_page"
	case errors.Is(err, exposition.ErrTooLarge):
		return "too_large"
	}
	return "error"
}
