package awsprice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"anabranch/costmodel/awsprice/fault"
	"anabranch/costmodel/pricelist"
)

// What one call may take. Prices are no emergency: better late than to press a service that throttles.
const (
	attempts        = 5
	longestPause    = 10 * time.Second
	requestTimeout  = 30 * time.Second
	identityTimeout = 5 * time.Second
	maxBody         = 32 << 20
)

// Load reads credentials, endpoint (AWS_ENDPOINT_URL) and authorities as AWS's own tools do: environment,
// shared files, the machine's role. It calls nobody. Requests are tried up to 5 times with growing pauses of
// at most 10 s, unless AWS_MAX_ATTEMPTS says otherwise; answers are bounded in time and size.
func Load(ctx context.Context) (aws.Config, error) {
	c, err := config.LoadDefaultConfig(
		ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(requestTimeout)),
		config.WithLogger(logging.Nop{}), // it would write to stderr; whatever matters is an error too
	)
	if err != nil {
		return aws.Config{}, fmt.Errorf("configuration of AWS: %w", err)
	}
	c.RetryMaxAttempts = cmp.Or(c.RetryMaxAttempts, attempts)
	c.Retryer = patient(c.RetryMaxAttempts, longestPause)
	c.HTTPClient = bounded{c.HTTPClient}
	return c, nil
}

func patient(attempts int, pause time.Duration) func() aws.Retryer {
	return func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = attempts, pause })
	}
}

// Credentials makes sure that there are some. If nobody gave any and the machine has no role, the error is a
// [pricelist.ErrAbsent].
func Credentials(ctx context.Context, c aws.Config) error {
	if c.Credentials == nil {
		return fmt.Errorf("%w: no AWS credentials", pricelist.ErrAbsent)
	}
	soon, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	_, err := c.Credentials.Retrieve(soon)
	var call *smithy.OperationError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case soon.Err() != nil, errors.As(err, &call) && call.ServiceID == "ec2imds":
		// The machine's role is what is asked for last, when nothing else is set.
		return fmt.Errorf("%w: no AWS credentials in environment, shared files or machine's role", pricelist.ErrAbsent)
	default:
		return fmt.Errorf("credentials of AWS: %w", fault.Plain(err))
	}
}

// bounded cuts answers that are longer than anything a price list has.
type bounded struct{ aws.HTTPClient }

func (b bounded) Do(r *http.Request) (*http.Response, error) {
	response, err := b.HTTPClient.Do(r)
	if err == nil {
		response.Body = &body{ReadCloser: response.Body, left: maxBody}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	left int
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d MiB", maxBody>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
