package instance

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// The variables of OpenTelemetry that turn traces on and say how they are sent; the exporters read
// the rest of them themselves.
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
const (
	otlpEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otlpTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otlpProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	otlpTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// tracesOn says whether traces are wanted: by --otlp-endpoint or by OpenTelemetry's own variables.
func (o Options) tracesOn() bool {
	return cmp.Or(o.OTLPEndpoint, os.Getenv(otlpTracesEndpoint), os.Getenv(otlpEndpoint)) != ""
}

// traces makes the provider of spans; nil if traces aren't wanted. A collector that is away costs
// spans and nothing else: they wait in a bounded queue and are dropped when it is full.
func (o Options) traces(ctx context.Context, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	if !o.tracesOn() {
		return nil, nil
	}
	exporter, err := o.exporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("anabranch-router"), semconv.ServiceInstanceID(string(o.Router)), semconv.ServiceVersion(o.Version),
		semconv.CloudRegion(string(o.Region))))
	if err != nil {
		return nil, fmt.Errorf("describe this router to OpenTelemetry: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not delivered", "error", err) }))
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)}
	if o.TraceRatio > 0 {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.TraceRatio))))
	}
	return sdktrace.NewTracerProvider(options...), nil
}

// exporter speaks http/protobuf, as is the default of OpenTelemetry, or gRPC.
func (o Options) exporter(ctx context.Context) (*otlptrace.Exporter, error) {
	switch protocol := cmp.Or(os.Getenv(otlpTracesProtocol), os.Getenv(otlpProtocol), "http/protobuf"); protocol {
	case "http/protobuf":
		var options []otlptracehttp.Option
		if o.OTLPEndpoint != "" {
			to, err := url.Parse(o.OTLPEndpoint)
			if err != nil {
				return nil, err
			}
			if strings.Trim(to.Path, "/") == "" {
				to.Path = "/v1/traces" // as OTEL_EXPORTER_OTLP_ENDPOINT is read too
			}
			options = append(options, otlptracehttp.WithEndpointURL(to.String()))
		}
		return otlptracehttp.New(ctx, options...)
	case "grpc":
		var options []otlptracegrpc.Option
		if o.OTLPEndpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(o.OTLPEndpoint))
		}
		return otlptracegrpc.New(ctx, options...)
	default:
		return nil, fmt.Errorf("%s is %q: http/protobuf and grpc are spoken", otlpProtocol, protocol)
	}
}

// traceFlush bounds the sending of the last spans.
const traceFlush = 5 * time.Second

// endTraces sends what is left.
func (n *Instance) endTraces() error {
	if n.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
	defer cancel()
	if err := n.provider.Shutdown(ctx); err != nil {
		n.log.Warn("the last traces are lost", "error", err)
	}
	return nil
}

// tracerProvider is the provider, or nil as an interface.
func (n *Instance) tracerProvider() trace.TracerProvider {
	if n.provider == nil {
		return nil
	}
	return n.provider
}
