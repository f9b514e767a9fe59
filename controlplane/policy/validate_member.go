package policy

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"anabranch/api/fleet"
)

// Bounds of what a cluster may say.
const (
	maxPath      = 1024 // bytes
	maxModelName = 256  // bytes
)

func (f *finding) member(s *ClusterSpec) {
	f.named("spec.region", s.Region, fleet.CheckName)
	f.oneOf("spec.type", s.Type, clusterTypes)
	if len(s.Models) == 0 {
		f.add("spec.models", "is empty", "name at least one base model")
	}
	f.names("spec.models", s.Models, fleet.CheckModel)
	f.modelNames(s)
	f.addresses(s)
	if s.Discovery != nil && s.Type == TypeEndpoints {
		f.discovery(s.Discovery)
	}
	if s.Auth != nil && s.Type != TypeRouter {
		f.auth(s)
	}
	if s.Collect != nil {
		f.collect(s.Collect)
	}
	if s.Pin != nil {
		f.pin(s.Pin)
	}
	seen := map[string]bool{}
	for i, g := range s.GPUs {
		at := fmt.Sprintf("spec.gpus[%d]", i)
		f.named(at+".class", g.Class, fleet.CheckName)
		f.between(at+".count", float64(g.Count), 1, maxGPUs)
		f.oneOf(at+".purchase", g.Purchase, purchases)
		f.goods(at, g.Instance, g.AvailabilityZone)
		if key := strings.Join([]string{g.Class, g.Purchase, g.Instance, g.AvailabilityZone}, "/"); seen[key] {
			f.add(at, fmt.Sprintf("class %q as %q appears twice", g.Class, g.Purchase), "add the counts up")
		} else {
			seen[key] = true
		}
	}
	f.between("spec.priorWork", s.PriorWork, 0, maxWork)
}

func (f *finding) modelNames(s *ClusterSpec) {
	for _, model := range sortedKeys(s.ModelNames) {
		at := fmt.Sprintf("spec.modelNames[%s]", clip(model))
		f.named(at, model, fleet.CheckModel)
		if name := s.ModelNames[model]; name == "" || len(name) > maxModelName || strings.ContainsFunc(name, control) {
			f.add(at, "is not a name", fmt.Sprintf("give 1 to %d printable bytes", maxModelName))
		}
	}
}

func control(c rune) bool { return c < ' ' || c == 0x7f }

// addresses checks the fields that say where requests go, which belong to some types only.
func (f *finding) addresses(s *ClusterSpec) {
	if !slices.Contains(clusterTypes, s.Type) {
		return // that is complained of
	}
	belongs := func(field string, set bool, owner string, types ...string) {
		if set && !slices.Contains(types, s.Type) {
			f.add("spec."+field, "belongs to type "+owner, "remove it, or set type: "+types[0])
		}
	}
	belongs("endpoints", len(s.Endpoints) > 0, "endpoints", TypeEndpoints)
	belongs("discovery", s.Discovery != nil, "endpoints", TypeEndpoints)
	belongs("url", s.URL != "", "gateway or provider", TypeGateway, TypeProvider)
	belongs("gatewayURL", s.GatewayURL != "", "gateway", TypeGateway)
	belongs("metricsURL", s.MetricsURL != "", "gateway", TypeGateway)
	belongs("modelNames", len(s.ModelNames) > 0, "endpoints, gateway or provider", TypeEndpoints, TypeGateway, TypeProvider)
	belongs("auth", s.Auth != nil, "endpoints, gateway or provider", TypeEndpoints, TypeGateway, TypeProvider)
	belongs("collect", s.Collect != nil, "endpoints or gateway", TypeEndpoints, TypeGateway)
	belongs("gpus", len(s.GPUs) > 0, "endpoints, gateway or router", TypeEndpoints, TypeGateway, TypeRouter)
	switch s.Type {
	case TypeEndpoints:
		f.endpoints(s)
	case TypeGateway:
		switch {
		case s.URL == "":
			f.web("spec.gatewayURL", s.GatewayURL, "http", "https")
		case s.GatewayURL != "" && s.GatewayURL != s.URL:
			f.add("spec.gatewayURL", "says something else than url", "remove it")
		default:
			f.web("spec.url", s.URL, "http", "https")
		}
		f.web("spec.metricsURL", s.MetricsURL, "http", "https")
	case TypeProvider:
		f.web("spec.url", s.URL, "https", "http")
	}
}

func (f *finding) endpoints(s *ClusterSpec) {
	if len(s.Endpoints) == 0 && s.Discovery == nil {
		f.add("spec.endpoints", "is empty", "give at least one endpoint, discovery, or type gateway with url and metricsURL")
	}
	ids, urls := map[string]int{}, map[string]int{}
	for i, e := range s.Endpoints {
		at := fmt.Sprintf("spec.endpoints[%d]", i)
		f.named(at+".id", e.ID, fleet.CheckName)
		f.web(at+".url", e.URL, "http", "https")
		f.named(at+".class", e.Class, fleet.CheckName)
		if e.KVEventsURL != "" {
			f.events(at+".kvEventsURL", e.KVEventsURL)
		}
		if first, dup := ids[e.ID]; dup && e.ID != "" {
			f.add(at+".id", fmt.Sprintf("%q is already endpoints[%d]", clip(e.ID), first), "give every endpoint an id of its own")
		} else {
			ids[e.ID] = i
		}
		if first, dup := urls[e.URL]; dup && e.URL != "" {
			f.add(at+".url", fmt.Sprintf("is already the address of endpoints[%d]", first), "list each model server once")
		} else {
			urls[e.URL] = i
		}
	}
}

// events wants the address of a ZeroMQ publisher.
func (f *finding) events(field, text string) {
	before := len(f.problems)
	f.web(field, text, "tcp")
	if u, err := url.Parse(text); len(f.problems) == before && (err != nil || u.Port() == "" || u.Path != "") {
		f.add(field, "is not tcp://host:port", "give the host and port that the model server publishes at, e.g. tcp://10.0.0.7:5557")
	}
}

func (f *finding) discovery(d *DiscoverySpec) {
	const at = "spec.discovery."
	f.oneOf(at+"kind", d.Kind, discoveryKinds)
	kube := d.Kind == DiscoverEndpointSlices || d.Kind == DiscoverInferencePool
	switch {
	case d.Name == "":
		f.add(at+"name", "is missing", "name the host, service, file, Service or InferencePool")
	case d.Kind == DiscoverFile:
		f.path(at+"name", d.Name)
	case kube:
		f.named(at+"name", d.Name, fleet.CheckName)
	case !host.MatchString(d.Name):
		f.add(at+"name", "is not a name of DNS", "give a host or a service such as _http._tcp.pool.example.com")
	}
	switch {
	case kube:
		f.named(at+"namespace", d.Namespace, fleet.CheckName)
	case d.Namespace != "":
		f.add(at+"namespace", "belongs to kinds endpointslices and inferencepool", "remove it")
	}
	switch {
	case d.Kind != DiscoverSRV:
		f.between(at+"port", float64(d.Port), 1, 65535)
	case d.Port != 0:
		f.add(at+"port", "is what the records of kind srv say", "remove it")
	}
	f.oneOf(at+"scheme", d.Scheme, schemes)
	if d.Class != "" {
		f.named(at+"class", d.Class, fleet.CheckName)
	}
}

var (
	host     = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9.])?$`)
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	awsWord  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
)

// auth checks that each type of credential has its fields and no others.
func (f *finding) auth(s *ClusterSpec) {
	const at = "spec.auth"
	a := s.Auth
	if f.oneOf(at+".type", a.Type, authTypes); !slices.Contains(authTypes, a.Type) {
		return
	}
	for _, x := range []struct {
		field, value string
		types        string // that it belongs to
	}{
		{"file", a.File, "bearer or sigv4"},
		{"env", a.Env, "bearer or sigv4"},
		{"certFile", a.CertFile, "mtls"},
		{"keyFile", a.KeyFile, "mtls"},
		{"caFile", a.CAFile, "mtls"},
		{"region", a.Region, "sigv4"},
		{"service", a.Service, "sigv4"},
		{"profile", a.Profile, "sigv4"},
	} {
		field := at + "." + x.field
		switch {
		case x.value == "":
		case !strings.Contains(x.types, a.Type):
			f.add(field, "belongs to type "+x.types, "remove it, or set another type")
		case x.field == "env" && !variable.MatchString(x.value):
			f.add(field, "is not the name of a variable", "use letters, digits and '_'")
		case x.types == "sigv4" && !awsWord.MatchString(x.value):
			f.add(field, "is not a name of AWS", "use at most 64 letters, digits, '.', '_' and '-'")
		case x.field == "file" || x.types == "mtls":
			f.path(field, x.value)
		}
	}
	switch a.Type {
	case AuthMTLS:
		f.required(at+".certFile", a.CertFile, "give the path of the certificate that the router shows")
		f.required(at+".keyFile", a.KeyFile, "give the path of its key")
		f.overTLS(s)
		return
	case AuthSigV4:
		f.required(at+".region", a.Region, "give the AWS region, e.g. us-east-1")
		f.required(at+".service", a.Service, "give the AWS service, e.g. sagemaker")
		if a.Profile != "" && a.File == "" {
			f.add(at+".profile", "is a section of a file that is not named", "give file, or remove it")
		}
	}
	if (a.File == "") == (a.Env == "") {
		f.add(at, "must name exactly one of file and env", "say where the router finds the secret")
	}
}

func (f *finding) required(field, value, fix string) {
	if value == "" {
		f.add(field, "is missing", fix)
	}
}

// overTLS wants every address of the cluster to be reached over TLS: without it no certificate is
// shown.
func (f *finding) overTLS(s *ClusterSpec) {
	const reason, fix = "is plain HTTP, over which no certificate is shown", "use https, or another type of auth"
	plain := func(u string) bool { return len(u) > 5 && strings.EqualFold(u[:5], "http:") }
	for i, e := range s.Endpoints {
		if plain(e.URL) {
			f.add(fmt.Sprintf("spec.endpoints[%d].url", i), reason, fix)
		}
	}
	switch {
	case plain(s.URL):
		f.add("spec.url", reason, fix)
	case plain(s.GatewayURL):
		f.add("spec.gatewayURL", reason, fix)
	}
	if s.Discovery != nil && s.Discovery.Scheme == "http" {
		f.add("spec.discovery.scheme", reason, fix)
	}
}

func (f *finding) path(field, path string) {
	if path[0] != '/' || len(path) > maxPath {
		f.add(field, fmt.Sprintf("is not an absolute path of at most %d bytes", maxPath), "give the path from /")
	}
}
