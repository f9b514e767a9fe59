package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
)

// flagOf are the flags behind fields of options.
var flagOf = map[string]string{
	"url": "target", "urls": "target", "api": "api", "speedup": "speedup", "inFlight": "in-flight", "timeout": "timeout",
	"from": "from and --length", "thin": "thin", "requests": "requests", "grid": "grid", "prompt": "max-prompt", "output": "max-output",
	"regions": "region", "mix": "tenant", "regionMap": "region-map", "tenantMap": "tenant-map", "modelMap": "model-map",
}

// fieldText is what is wrong with a field of options: its name, perhaps a place in it by number or by
// name, and the words.
var fieldText = regexp.MustCompile(`^(?:trace options: )?(\w+)(?:, \w+)*(?:\[(?:\d+|("?[^\]]*))\]|\.\w+)*: (?:cap: )?(.*)$`)

// named tells what is wrong with a field of options by the flag.
func named(err error) error {
	part := fieldText.FindStringSubmatch(err.Error())
	switch {
	case part == nil || flagOf[part[1]] == "":
		return err
	case part[2] != "":
		return fmt.Errorf("--%s: %s: %s", flagOf[part[1]], part[2], part[3])
	}
	return fmt.Errorf("--%s: %s", flagOf[part[1]], part[3])
}

// shares fills in who asks, from where and for what. Without flags requests come from the regions
// that have a target of their own, in equal parts, and from the tenants that have a key.
func (f *replayFlags) shares() error {
	regions := f.regions
	if len(regions) == 0 {
		for _, r := range slices.Sorted(maps.Keys(f.options.URLs)) {
			regions = append(regions, string(r))
		}
	}
	origin := map[string]int{}
	for _, text := range regions {
		name, weight, err := share(text)
		if err != nil {
			return fmt.Errorf("--region: %w", err)
		}
		origin[name] = len(f.trace.Regions)
		f.trace.Regions = append(f.trace.Regions, workload.Origin{Region: fleet.RegionID(name), Weight: weight})
	}
	for region, text := range f.shifts {
		shift, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("--shift: %s: %q is no duration such as 6h", region, text)
		}
		i, ok := origin[region]
		if !ok {
			return fmt.Errorf("--shift: requests come from no region %q: name it by --region", region)
		}
		f.trace.Regions[i].Shift = shift
	}
	tenants := f.tenants
	if len(tenants) == 0 {
		tenants = slices.Sorted(maps.Keys(f.keys))
	}
	for _, text := range tenants {
		name, weight, err := share(text)
		if err != nil {
			return fmt.Errorf("--tenant: %w", err)
		}
		f.trace.Mix.Tenants = append(f.trace.Mix.Tenants, workload.Share[fleet.TenantID]{Value: fleet.TenantID(name), Weight: weight})
	}
	f.trace.RegionMap = namesOf[fleet.RegionID](f.regionMap)
	f.trace.TenantMap = namesOf[fleet.TenantID](f.tenantMap)
	f.trace.ModelMap = namesOf[fleet.ModelID](f.modelMap)
	if err := fleet.CheckModel(f.model); err != nil && f.model != "" {
		return fmt.Errorf("--model: %w", err)
	}
	return nil
}

// share reads NAME or NAME=WEIGHT; the weight is 1 when it isn't there.
func share(text string) (name string, weight float64, err error) {
	name, number, weighed := strings.Cut(text, "=")
	if err := fleet.CheckName(name); err != nil {
		return "", 0, fmt.Errorf("name %w", err)
	}
	if !weighed {
		return name, 1, nil
	}
	if weight, err = strconv.ParseFloat(number, 64); err != nil || !(weight > 0 && weight <= 1e9) {
		return "", 0, fmt.Errorf("%s: %q is no weight: set a positive number", name, number)
	}
	return name, weight, nil
}

// namesOf is nil for an empty map: without one all names stay.
func namesOf[N ~string](names map[string]string) map[string]N {
	if len(names) == 0 {
		return nil
	}
	out := map[string]N{}
	for from, to := range names {
		out[from] = N(to)
	}
	return out
}

// fit makes sure that every request has a model, a target and a key, and measures the workload.
func (f *replayFlags) fit(w *replayWork, served []string) error {
	source, err := w.open()
	if err != nil {
		return err
	}
	if w.stats, err = workload.Measure(source, measured, answerTakes); err != nil {
		return err
	}
	switch span := w.stats.Span; {
	case f.warmup > 0 && span < f.warmup && w.total() > 0:
		return fmt.Errorf("--warmup: all requests come before %v: set less", f.warmup)
	case f.warmup > 0:
		w.warmup = f.warmup
	case span < 2*w.warmup:
		w.warmup = 0 // so little of a scenario's workload is sent that there would be hardly anything to tell
	}
	if unnamed(w.stats.Models) {
		switch len(served) {
		case 0:
			return errors.New("--model: the trace names no model, and the target doesn't tell which it serves: name one")
		case 1:
			f.options.Model = fleet.ModelID(served[0])
		default:
			return fmt.Errorf("--model: the trace names no model: name one of those served, %s", strings.Join(served, ", "))
		}
	}
	w.unlisted = unlisted(w.stats.Models, served)
	for _, p := range w.stats.Regions {
		if f.options.URL == "" && f.options.URLs[fleet.RegionID(p.Name)] == "" {
			return fmt.Errorf("--target: region %q has none: name it as REGION=URL, or map the region to one that has by --region-map", p.Name)
		}
	}
	if f.options.URL == "" && unnamed(w.stats.Regions) {
		return errors.New("--target: there are requests of no region: name a URL without a region too")
	}
	if f.options.Key != "" || len(f.options.Keys) == 0 {
		return nil
	}
	for _, p := range w.stats.Tenants {
		if f.options.Keys[fleet.TenantID(p.Name)] == "" && p.Name != "" {
			return fmt.Errorf("--key: tenant %q has none: name a file as TENANT=FILE, or map the tenant to one that has by --tenant-map", p.Name)
		}
	}
	if unnamed(w.stats.Tenants) {
		return errors.New("--tenant: there are requests of no tenant: name who asks")
	}
	return nil
}

// unnamed says whether some requests name nothing there.
func unnamed(parts []workload.Part) bool {
	return len(parts) == 0 || slices.ContainsFunc(parts, func(p workload.Part) bool { return p.Name == "" })
}

// unlisted says which models are not among those served. Empty: none.
func unlisted(models []workload.Part, served []string) string {
	var out []string
	for _, p := range models {
		adapter := p.Name[strings.LastIndexByte(p.Name, '/')+1:] // which has the name of its model before it
		if len(served) > 0 && p.Name != "" && !slices.Contains(served, p.Name) && !slices.Contains(served, adapter) {
			out = append(out, p.Name)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf("The target does not list the model %s, but %s.", strings.Join(out, ", "), strings.Join(served, ", "))
}
