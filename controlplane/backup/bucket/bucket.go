// Package bucket keeps backups in a bucket of S3, or of another store that speaks its REST API. It is
// apart from package backup because of the AWS SDK behind it: only commands import it.
package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// maxNames bounds how many objects below the prefix are looked at.
const maxNames = 100_000

// Options say which bucket. Only URL is required.
type Options struct {
	// URL is s3://bucket/prefix; the prefix may be empty.
	URL string
	// Endpoint of a store that is not AWS's own, https://host:port; bucket names then stand in paths.
	// Empty: AWS.
	Endpoint string
	// Region; empty: as the environment says, else us-east-1 where there is an Endpoint.
	Region string
}

// Validate names the option that is wrong.
func (o Options) Validate() error {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the URL is not of the form s3://bucket/prefix") // it may hold a secret by mistake
	}
	if o.Endpoint == "" {
		return nil
	}
	e, err := url.Parse(o.Endpoint)
	if err != nil || e.Host == "" || e.User != nil || e.Scheme != "https" && e.Scheme != "http" {
		return errors.New("the endpoint is not of the form https://host:port")
	}
	return nil
}

// Bucket is a backup.Place.
type Bucket struct {
	client       *s3.Client
	name, prefix string
}

// New reads credentials and region as AWS's own tools do: environment, shared files, the machine's
// role. It calls nobody.
func New(ctx context.Context, o Options) (*Bucket, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("bucket for backups: %w", err)
	}
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("bucket for backups: %w", err)
	}
	if c.Region == "" && o.Endpoint != "" {
		c.Region = "us-east-1" // stores that have none take any; requests must be signed for one
	}
	if c.Region == "" {
		return nil, errors.New("bucket for backups: no region: name one, or set AWS_REGION")
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("bucket for backups: %w", err)
	}
	b := &Bucket{name: u.Host, prefix: strings.Trim(u.Path, "/")}
	b.client = s3.NewFromConfig(c, func(so *s3.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint, so.UsePathStyle = aws.String(o.Endpoint), true
		}
	})
	return b, nil
}

// String is the URL.
func (b *Bucket) String() string { return "s3://" + path.Join(b.name, b.prefix) }

func (b *Bucket) key(name string) *string { return aws.String(path.Join(b.prefix, name)) }

// Put sends the archive with its SHA-256, which the store checks before the object is there.
func (b *Bucket) Put(ctx context.Context, name string, archive io.ReadSeeker, size int64) error {
	h := sha256.New()
	if _, err := io.Copy(h, archive); err != nil {
		return err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: b.key(name), Body: archive, ContentLength: &size,
		ContentType: aws.String("application/octet-stream"), ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
		ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(h.Sum(nil))),
	})
	return err
}

// Names lists what lies right below the prefix.
func (b *Bucket) Names(ctx context.Context) ([]string, error) {
	prefix := b.prefix
	if prefix != "" {
		prefix += "/"
	}
	var names []string
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, Delimiter: aws.String("/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			names = append(names, strings.TrimPrefix(aws.ToString(o.Key), prefix))
		}
		if len(names) > maxNames {
			return nil, fmt.Errorf("there are more than %d objects: give backups a prefix of their own", maxNames)
		}
	}
	return names, nil
}

// Delete removes an object.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: b.key(name)})
	return err
}
