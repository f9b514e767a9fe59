package credential

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"pgregory.net/rapid"
)

// What AWS's published test suite for Signature Version 4 signs with.
var (
	suiteKeys = keys{id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	suiteTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
)

const suiteToken = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="

func request(method, target string, header ...string) *http.Request {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	r := &http.Request{Method: method, URL: u, Header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestSignaturesAreThoseOfTheSuite(t *testing.T) {
	const host = "https://example.amazonaws.com"
	for name, c := range map[string]struct {
		request         *http.Request
		body            string
		token           string
		names, expected string
	}{
		"get-vanilla": {
			request: request("GET", host+"/"), names: "host;x-amz-date",
			expected: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		"get-vanilla, its path left out": {
			request: request("GET", host), names: "host;x-amz-date",
			expected: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		"get-vanilla, with the port of its scheme": {
			request: request("GET", host+":443/"), names: "host;x-amz-date",
			expected: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		"get-vanilla-query-order-key-case": {
			request: request("GET", host+"/?Param2=value2&Param1=value1"), names: "host;x-amz-date",
			expected: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
		},
		"get-unreserved": {
			request: request("GET", host+"/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), names: "host;x-amz-date",
			expected: "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
		},
		"post-vanilla": {
			request: request("POST", host+"/"), names: "host;x-amz-date",
			expected: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
		},
		"post-sts-header-before": {
			request: request("POST", host+"/"), token: suiteToken, names: "host;x-amz-date;x-amz-security-token",
			expected: "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
		},
		"post-x-www-form-urlencoded": {
			request: request("POST", host+"/", "Content-Type", "application/x-www-form-urlencoded"), body: "Param1=value1",
			names:    "content-type;host;x-amz-date",
			expected: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &signer{keys: suiteKeys, region: "us-east-1", service: "service"}
			s.keys.token = c.token
			if err := s.sign(c.request, []byte(c.body), suiteTime); err != nil {
				t.Fatal(err)
			}
			want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" +
				c.names + ", Signature=" + c.expected
			if got := c.request.Header.Get("Authorization"); got != want {
				t.Errorf("signed\n%s\nwant\n%s", got, want)
			}
			if got := c.request.Header.Get("X-Amz-Date"); got != "20150830T123600Z" {
				t.Errorf("date %q", got)
			}
		})
	}
}

// agree signs a request with ours and with AWS's own signer. Ours leaves headers unsigned that are
// AWS's signer's to sign; it is not shown them.
func agree(t testing.TB, r *http.Request, body []byte, k keys, at time.Time) {
	t.Helper()
	theirs := r.Clone(t.Context())
	for name := range theirs.Header {
		if name != "Content-Type" && !strings.HasPrefix(name, "X-Amz-") {
			delete(theirs.Header, name)
		}
	}
	sum := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: k.id, SecretAccessKey: k.secret, SessionToken: k.token}
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, theirs, hex.EncodeToString(sum[:]), "sagemaker", "eu-west-1", at); err != nil {
		t.Fatal(err)
	}
	s := &signer{keys: k, region: "eu-west-1", service: "sagemaker"}
	if err := s.sign(r, body, at); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if r.Header.Get(name) != theirs.Header.Get(name) {
			t.Errorf("%s of %s:\nours   %s\ntheirs %s", name, r.URL, r.Header.Get(name), theirs.Header.Get(name))
		}
	}
	if r.URL.String() != theirs.URL.String() || r.Host != theirs.Host {
		t.Errorf("sent to %s %s, theirs to %s %s", r.Host, r.URL, theirs.Host, theirs.URL)
	}
}

func TestSignaturesAreThoseOfTheSDK(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("abcXYZ019-._~/%+ &=;:?#[]@!$'()*,\"<>\\^`{|}é中\x01")))
		u := &url.URL{Scheme: rapid.SampledFrom([]string{"http", "https"}).Draw(rt, "scheme")}
		u.Host = "gateway.example.com" + rapid.SampledFrom([]string{"", ":80", ":443", ":8080"}).Draw(rt, "port")
		u.Path = "/" + text.Draw(rt, "path")
		query := url.Values{}
		for range rapid.IntRange(0, 4).Draw(rt, "parameters") {
			query.Add(text.Draw(rt, "name"), text.Draw(rt, "value"))
		}
		u.RawQuery = query.Encode()
		body := []byte(text.Draw(rt, "body"))
		r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, ContentLength: int64(len(body))}
		if rapid.Bool().Draw(rt, "host") {
			r.Host = u.Host
		}
		value := rapid.StringMatching(`[ -~]{0,20}`)
		r.Header.Set("Content-Type", value.Draw(rt, "type"))
		r.Header.Set("Traceparent", value.Draw(rt, "trace"))
		for range rapid.IntRange(0, 2).Draw(rt, "values") {
			r.Header.Add("X-Amz-Target", value.Draw(rt, "target"))
		}
		k := suiteKeys
		if rapid.Bool().Draw(rt, "session") {
			k.token = suiteToken
		}
		agree(t, r, body, k, time.Unix(rapid.Int64Range(0, 4e9).Draw(rt, "now"), 0))
	})
}

func FuzzSignaturesAreThoseOfTheSDK(f *testing.F) {
	f.Add("/v1/chat/completions", "", []byte(`{"model":"m"}`))
	f.Add("/a%2Fb/ü/../c//d", "b=2&a=a%2Fb&a=a-b&c", []byte(nil))
	f.Add("/%e1%88%b4+ ", "x=%zz&y;z&=&+", []byte("x"))
	f.Fuzz(func(t *testing.T, path, query string, body []byte) {
		u, err := url.ParseRequestURI("/" + strings.TrimLeft(path, "/"))
		if err != nil {
			return
		}
		u.Scheme, u.Host, u.RawQuery = "https", "gateway.example.com", query
		r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, ContentLength: int64(len(body))}
		agree(t, r, body, suiteKeys, suiteTime)
	})
}

func TestASignatureIsOverAllThatCounts(t *testing.T) {
	s := &signer{keys: suiteKeys, region: "us-east-1", service: "sagemaker"}
	sign := func(change func(*http.Request) []byte) string {
		r := request("POST", "https://a.example.com/v1/x?y=z", "Content-Type", "application/json")
		body := []byte("body")
		if change != nil {
			body = change(r)
		}
		if err := s.sign(r, body, suiteTime); err != nil {
			t.Fatal(err)
		}
		return r.Header.Get("Authorization")
	}
	body := []byte("body")
	base := sign(nil)
	for name, change := range map[string]func(*http.Request) []byte{
		"method": func(r *http.Request) []byte { r.Method = "PUT"; return body },
		"path":   func(r *http.Request) []byte { r.URL.Path = "/v1/y"; return body },
		"query":  func(r *http.Request) []byte { r.URL.RawQuery = "y=q"; return body },
		"host":   func(r *http.Request) []byte { r.Host = "b.example.com"; return body },
		"type":   func(r *http.Request) []byte { r.Header.Set("Content-Type", "text/plain"); return body },
		"x-amz":  func(r *http.Request) []byte { r.Header.Set("X-Amz-Target", "x"); return body },
		"length": func(r *http.Request) []byte { r.ContentLength = 4; return body },
		"body":   func(*http.Request) []byte { return []byte("Body") },
	} {
		if sign(change) == base {
			t.Errorf("%s can be changed under the signature", name)
		}
	}
	for name, change := range map[string]func(*http.Request) []byte{
		"another header":           func(r *http.Request) []byte { r.Header.Set("X-Request-Id", "7"); return body },
		"a client's session token": func(r *http.Request) []byte { r.Header.Set("X-Amz-Security-Token", "theirs"); return body },
		"a client's hash":          func(r *http.Request) []byte { r.Header.Set("X-Amz-Content-Sha256", "theirs"); return body },
		"a client's authorization": func(r *http.Request) []byte { r.Header.Set("Authorization", "Bearer theirs"); return body },
	} {
		if sign(change) != base {
			t.Errorf("%s changes the signature", name)
		}
	}
}

func TestAKeyIsDerivedForEachDay(t *testing.T) {
	s := &signer{keys: suiteKeys, region: "us-east-1", service: "service"}
	for _, at := range []time.Time{suiteTime, suiteTime.Add(24 * time.Hour), suiteTime} {
		r := request("GET", "https://example.amazonaws.com/")
		if err := s.sign(r, nil, at); err != nil {
			t.Fatal(err)
		}
		fresh := &signer{keys: suiteKeys, region: "us-east-1", service: "service"}
		again := request("GET", "https://example.amazonaws.com/")
		if err := fresh.sign(again, nil, at); err != nil {
			t.Fatal(err)
		}
		if r.Header.Get("Authorization") != again.Header.Get("Authorization") {
			t.Errorf("%s: another key's signature", at)
		}
	}
	one, two := s.key("20150830"), s.key("20150830")
	if &one[0] != &two[0] {
		t.Error("the key of the same day was derived twice")
	}
}

func TestAnAddressKeepsItsBrackets(t *testing.T) {
	for host, want := range map[string]string{
		"[::1]:443": "[::1]", "[::1]:8443": "", "[::1]": "", "a:443": "a", "a": "", "a:80": "",
	} {
		r := &http.Request{URL: &url.URL{Scheme: "https", Host: host}}
		if got := withoutPort(r); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

func TestWhatHasNoPathIsNotSigned(t *testing.T) {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Opaque: "//x/y"}, Header: http.Header{}}
	s := &signer{keys: suiteKeys}
	if err := s.sign(r, nil, suiteTime); err == nil || r.Header.Get("Authorization") != "" {
		t.Errorf("error %v, header %v", err, r.Header)
	}
}

func BenchmarkSign(b *testing.B) {
	s := &signer{keys: suiteKeys, region: "us-east-1", service: "sagemaker"}
	body := bytes.Repeat([]byte("x"), 4096)
	r := request("POST", "https://a.example.com/v1/chat/completions", "Content-Type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		if err := s.sign(r, body, suiteTime); err != nil {
			b.Fatal(err)
		}
	}
}
