package dataplane

import (
	"fmt"
	"net/http"
	"time"

	"anabranch/dataplane/admit"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/ratelimit"
)

// The answers of the router itself. All of them are here, with their codes; what upstream faults
// are called is in proxy.

// codeDefect is the code of a request that met a defect of the router. The client gets no answer, or no
// whole one.
const codeDefect = "internal_error"

// codeQuotaCut is the code of a stream that was cut off since its tenant's quotas had no more for it.
const codeQuotaCut = "quota_cut"

func noTable() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusServiceUnavailable, Type: proxy.TypeServer, Code: "no_table", Origin: proxy.FromRouter,
		Message:    "This router has no routing table yet: no control plane has answered since its first start.",
		RetryAfter: time.Second,
	}
}

func busy() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusServiceUnavailable, Type: proxy.TypeServer, Code: "router_busy", Origin: proxy.FromRouter,
		Message: "This router has as many requests open, or as much of their bodies, as it may.", RetryAfter: time.Second,
	}
}

func tooMany() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusTooManyRequests, Type: proxy.TypeRateLimit, Code: "tenant_busy", Origin: proxy.FromRouter,
		Message: "The tenant has as many large requests open at this router as one tenant may.", RetryAfter: time.Second,
	}
}

func unauthorized(message string) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusUnauthorized, Type: proxy.TypeInvalidRequest, Code: "invalid_api_key", Origin: proxy.FromRouter,
		Message: message,
	}
}

func notFound(method, path string) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusNotFound, Type: proxy.TypeInvalidRequest, Code: "unknown_url", Origin: proxy.FromRouter,
		Message: fmt.Sprintf("There is no %.20s %.200q here.", method, path),
	}
}

// notServed: no place of the model knows what is asked for.
func notServed(method, path string, origin proxy.Origin) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusNotFound, Type: proxy.TypeInvalidRequest, Code: "unknown_url", Origin: origin,
		Message: fmt.Sprintf("Where the model is served there is no %s %.200q, or not for this model.", method, path),
	}
}

// credentialMissing: what this router needs to prove itself to the cluster is not where the table says.
func credentialMissing() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusBadGateway, Type: proxy.TypeServer, Code: proxy.CodeUnsigned, Origin: proxy.FromRouter,
		Message: "This router lacks the credential of the cluster.",
	}
}

func wrongMethod(method, allowed string) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusMethodNotAllowed, Type: proxy.TypeInvalidRequest, Code: "method_not_allowed", Origin: proxy.FromRouter,
		Message: fmt.Sprintf("%.20s is not allowed here, only %s is.", method, allowed),
	}
}

func tooLarge() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusRequestEntityTooLarge, Type: proxy.TypeInvalidRequest, Code: "request_too_large", Origin: proxy.FromRouter,
		Message: fmt.Sprintf("The body is larger than %d bytes.", maxBody),
	}
}

func encoded(encoding string) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusUnsupportedMediaType, Type: proxy.TypeInvalidRequest, Code: "unsupported_encoding", Origin: proxy.FromRouter,
		Message: fmt.Sprintf("The body has the Content-Encoding %.40q. Bodies are taken as they are or with gzip.", encoding),
	}
}

func corrupt() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusBadRequest, Type: proxy.TypeInvalidRequest, Code: "body_corrupt", Origin: proxy.FromRouter,
		Message: "The body is not whole, or not what its Content-Encoding says.",
	}
}

func unreadable() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusBadRequest, Type: proxy.TypeInvalidRequest, Code: "body_incomplete", Origin: proxy.FromRouter,
		Message: "The body did not arrive whole.",
	}
}

func malformed(p *inference.Problem) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusBadRequest, Type: proxy.TypeInvalidRequest, Code: "invalid_request", Origin: proxy.FromRouter,
		Message: p.Message, Param: p.Param,
	}
}

func unknownModel(name string) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusNotFound, Type: proxy.TypeInvalidRequest, Code: "model_not_found", Origin: proxy.FromRouter,
		Message: fmt.Sprintf("The model %.200q does not exist here.", name), Param: "model",
	}
}

// cutOff is what a stream ends with for which a limit has no more. A budget's is no matter of waiting.
func cutOff(l ratelimit.Limit) *proxy.Error {
	kind := proxy.TypeRateLimit
	if l.Kind == ratelimit.Money {
		kind = proxy.TypeBudget
	}
	return &proxy.Error{
		Status: http.StatusTooManyRequests, Type: kind, Code: kind, Origin: proxy.FromQuota,
		Message: "The answer was cut off here: quota " + l.ID + " has no more for it.",
	}
}

func denied(d ratelimit.Decision) *proxy.Error {
	words := admit.Deny(d)
	return &proxy.Error{Status: words.Status, Type: words.Type, Code: words.Code, Message: words.Message, Origin: proxy.FromQuota}
}

// unroutable words an empty choice.
func unroutable(code string) *proxy.Error {
	if code == route.NoLegalTarget {
		return &proxy.Error{
			Status: http.StatusServiceUnavailable, Type: proxy.TypeServer, Code: route.NoLegalTarget, Origin: proxy.FromRouter,
			Message: "No cluster may serve this request: where the tenant's data and the traffic policies let it go, none serves the model, or operators keep requests away from those that do.",
		}
	}
	return noCapacity()
}

func noCapacity() *proxy.Error {
	return &proxy.Error{
		Status: http.StatusServiceUnavailable, Type: proxy.TypeServer, Code: route.NoCapacity, Origin: proxy.FromRouter,
		Message: "No cluster that may serve this request can take it now.", RetryAfter: time.Second,
	}
}

// exhausted is what to answer when attempts failed and none is left: the last failure, or no
// capacity where all that was wrong was that the places were busy. Dead: the place of the last
// attempt has been found dead by now. What is dead may be back in a second, or others known, so that
// clients are told to come back then.
func exhausted(last *proxy.Error, dead bool) *proxy.Error {
	if last == nil {
		return noCapacity()
	}
	switch last.Code {
	case "endpoint_busy", route.NoCapacity, route.NoLegalTarget:
		e := noCapacity()
		e.Origin = last.Origin
		if last.Code == "endpoint_busy" {
			e.Message += " The last one said: " + last.Message + "."
		}
		e.RetryAfter = max(e.RetryAfter, last.RetryAfter)
		return e
	case "connect_failed", "place_ejected", codeEjected:
		dead = true
	}
	if !dead && last.Status != http.StatusServiceUnavailable {
		return last
	}
	e := *last
	e.Status, e.RetryAfter = http.StatusServiceUnavailable, max(e.RetryAfter, time.Second)
	return &e
}
