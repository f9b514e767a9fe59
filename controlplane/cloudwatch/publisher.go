// Package cloudwatch publishes metrics of the control plane to Amazon CloudWatch, for those who have their
// dashboards and alarms there. Each metric there costs money for each combination of its labels, so only
// those that are named are published, and no more than so many; and only by the node that leads, which
// alone knows what the fleet is planned to do. Nothing of Anabranch depends on it: without credentials
// nothing is published, and what could not be is told and tried again.
//
// Metrics are put by PutMetricData and not as logs in the embedded metric format, which would need an agent or a
// log group. Nothing is read from CloudWatch: its figures are a minute old and more, where weights want those of
// this second, which routers and polls read at their source.
package cloudwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/costmodel/awsprice/fault"
	"anabranch/costmodel/pricelist"
)

const (
	// DefaultNamespace is that of the metrics.
	DefaultNamespace = "Anabranch"
	// DefaultInterval is the time between two data points, CloudWatch's standard resolution.
	DefaultInterval = time.Minute
	// MinInterval is the least time between two.
	MinInterval = 10 * time.Second
	// DefaultMost is how many data are published at a time.
	DefaultMost = 500
	// perCall is how many data a call holds: half of what CloudWatch takes, so that histograms stay within
	// its megabyte too. See https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html
	perCall = 500
	// timeout bounds the publishing of all data of one moment, retries included.
	timeout = 50 * time.Second
)

// DefaultNames are patterns of the metrics that are published unless others are named: what the fleet
// costs and needs, and whether the control plane is well.
func DefaultNames() []string {
	return []string{
		"anabranch_controlplane_leader", "anabranch_controlplane_members", "anabranch_controlplane_router_streams",
		"anabranch_wanted_capacity", "anabranch_cost_*",
	}
}

// Client is the part of CloudWatch's client that is used.
type Client interface {
	PutMetricData(context.Context, *cloudwatch.PutMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.PutMetricDataOutput, error)
}

// Options of a publisher. Client, Gatherer and Leading are required.
type Options struct {
	Client Client
	// Credentials says whether there are any; an error that is a pricelist.ErrAbsent is a normal state. Nil:
	// calls will tell.
	Credentials func(context.Context) error
	Gatherer    prometheus.Gatherer
	// Leading says whether this node leads: the others publish nothing.
	Leading func() bool
	// Namespace; empty: DefaultNamespace. Names are of metrics, with * for any letters; none: DefaultNames.
	Namespace string
	Names     []string
	// Interval between data points; 0: DefaultInterval, else at least MinInterval.
	Interval time.Duration
	// Most is how many data are published at a time; 0 and less: DefaultMost. What is more is left out, by name.
	Most int
	// Now is time.Now when nil, Logger slog.Default(); Registerer may be nil.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Validate names what operators chose wrongly by its flag.
func (o Options) Validate() error {
	switch {
	case len(o.Namespace) > maxText || strings.HasPrefix(o.Namespace, "AWS/"):
		return errors.New("--cloudwatch-namespace: name one of your own, of at most 255 letters; those that begin with AWS/ are Amazon's")
	case o.Interval != 0 && o.Interval < MinInterval:
		return fmt.Errorf("--cloudwatch-interval: %s is too short, the least is %s", o.Interval, MinInterval)
	}
	for _, name := range o.Names {
		if _, err := path.Match(name, ""); err != nil || name == "" {
			return fmt.Errorf("--cloudwatch-metrics: %q is no name of a metric, nor a pattern such as anabranch_cost_*", name)
		}
	}
	return nil
}

// Publisher publishes while its node leads. Run is its only user of what it remembers.
type Publisher struct {
	o       Options
	logger  *slog.Logger
	before  sums
	why     string // it last could not publish; empty: it could
	put     prometheus.Counter
	failed  prometheus.Counter
	omitted prometheus.Gauge
}

// New makes a publisher that Run starts.
func New(o Options) (*Publisher, error) {
	if o.Client == nil || o.Gatherer == nil || o.Leading == nil {
		return nil, errors.New("cloudwatch: Client, Gatherer and Leading are needed")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Namespace, o.Interval = cmp.Or(o.Namespace, DefaultNamespace), cmp.Or(o.Interval, DefaultInterval)
	if o.Most <= 0 {
		o.Most = DefaultMost
	}
	if len(o.Names) == 0 {
		o.Names = DefaultNames()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &Publisher{
		o: o, logger: o.Logger.With("component", "cloudwatch"),
		put: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_cloudwatch_published_total", Help: "Data points that CloudWatch took.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_cloudwatch_failures_total", Help: "Times at which data could not be published.",
		}),
		omitted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "anabranch_cloudwatch_omitted", Help: "Data points left out last time, being more than are published at a time.",
		}),
	}
	if o.Registerer != nil {
		if err := errors.Join(o.Registerer.Register(p.put), o.Registerer.Register(p.failed), o.Registerer.Register(p.omitted)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Run publishes until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	tick := time.NewTicker(p.o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !p.o.Leading() {
			p.before = nil // whoever led meanwhile has told what came on top
			continue
		}
		p.tell(ctx, p.Publish(ctx))
	}
}

// tell logs how publishing goes, once for each change.
func (p *Publisher) tell(ctx context.Context, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	changed := (why == "") != (p.why == "")
	p.why = why
	switch {
	case ctx.Err() != nil || !changed:
	case err == nil:
		p.logger.Info("metrics are published again", "namespace", p.o.Namespace)
	case errors.Is(err, pricelist.ErrAbsent):
		p.logger.Info("no metrics are published", "reason", err)
	default:
		p.logger.Warn("metrics could not be published", "error", err)
	}
}

// Publish publishes what there is now. What counters grew by is kept for the next time when it fails.
func (p *Publisher) Publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if p.o.Credentials != nil {
		if err := p.o.Credentials(ctx); err != nil {
			if !errors.Is(err, pricelist.ErrAbsent) {
				p.failed.Inc()
			}
			return err
		}
	}
	families, err := p.o.Gatherer.Gather()
	if err != nil {
		p.failed.Inc()
		return fmt.Errorf("gather metrics: %w", err)
	}
	all, after := data(families, p.wanted, p.before, p.o.Now())
	kept := all[:min(len(all), p.o.Most)]
	p.omitted.Set(float64(len(all) - len(kept)))
	taken := 0
	for part := range slices.Chunk(kept, perCall) {
		if err = p.call(ctx, part); err != nil {
			p.failed.Inc()
			break
		}
		taken += len(part)
	}
	for _, lost := range kept[taken:] {
		if was, known := p.before[lost.series]; known {
			after[lost.series] = was
		}
	}
	p.before = after
	return err
}

func (p *Publisher) call(ctx context.Context, part []point) error {
	in := &cloudwatch.PutMetricDataInput{Namespace: aws.String(p.o.Namespace)}
	for _, x := range part {
		in.MetricData = append(in.MetricData, x.MetricDatum)
	}
	_, err := p.o.Client.PutMetricData(ctx, in)
	if err != nil {
		return fmt.Errorf("publish %d metrics to CloudWatch: %w", len(part), fault.Plain(err))
	}
	p.put.Add(float64(len(part)))
	return nil
}

// wanted says whether a metric is one of those that are named.
func (p *Publisher) wanted(name string) bool {
	return slices.ContainsFunc(p.o.Names, func(pattern string) bool {
		fits, err := path.Match(pattern, name)
		return err == nil && fits
	})
}
