package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/dev"
)

const (
	// maxKey bounds the file of an API key.
	maxKey = 4 << 10
	// reachWithin is how long a target may take to say which models it serves, and maxModels how much
	// of that is read.
	reachWithin = 10 * time.Second
	maxModels   = 4 << 20
	// devTenant is who asks the demonstration when nobody says: it has room.
	devTenant = "acme"
)

// address fills in targets and keys: by flags and environment, or else from the demonstration, whose
// keys are sent to no other place.
func (f *replayFlags) address(ctx context.Context) error {
	f.options.URLs = map[fleet.RegionID]string{}
	for _, t := range f.targets {
		region, where, apart := strings.Cut(t, "=")
		if !apart || strings.HasPrefix(region, "http:") || strings.HasPrefix(region, "https:") {
			if f.options.URL != "" {
				return errors.New("--target: two are without a region: write REGION=URL")
			}
			f.options.URL = t
			continue
		}
		if err := fleet.CheckName(region); err != nil {
			return fmt.Errorf("--target: region %w", err)
		}
		f.options.URLs[fleet.RegionID(region)] = where
	}
	f.options.Keys = map[fleet.TenantID]string{}
	for tenant, file := range f.keys {
		key, err := readKey(file)
		if err != nil {
			return fmt.Errorf("--key: key of %s: %w", tenant, err)
		}
		f.options.Keys[fleet.TenantID(tenant)] = key
	}
	if len(f.targets) > 0 {
		f.options.Key = os.Getenv("ANABRANCH_API_KEY")
		if f.options.Key == "" && len(f.keys) == 0 {
			if r, err := folder.Load(); err == nil && f.only(r) {
				f.become(r)
			}
		}
		return nil
	}
	r, err := folder.Load()
	if err != nil {
		return fmt.Errorf("%w; name a --target, or run where `anabranch dev` was started", err)
	}
	// dev.json outlives its demonstration, and another folder's may be at the same ports.
	if _, err := folder.Status(ctx); err != nil {
		return fmt.Errorf("%w, or name a --target", err)
	}
	for _, router := range r.Routers {
		f.options.URLs[fleet.RegionID(router.Region)] = router.HTTP
	}
	f.become(r)
	return nil
}

// only says whether all targets are routers of a demonstration.
func (f *replayFlags) only(r *dev.Record) bool {
	for _, t := range append(slices.Collect(maps.Values(f.options.URLs)), f.options.URL) {
		at := func(router dev.RouterRecord) bool { return router.HTTP == strings.TrimRight(t, "/") }
		if t != "" && !slices.ContainsFunc(r.Routers, at) {
			return false
		}
	}
	return true
}

// become takes the keys of a demonstration's tenants. Those of flags come first.
func (f *replayFlags) become(r *dev.Record) {
	for name, t := range r.Tenants {
		if f.options.Keys[fleet.TenantID(name)] == "" {
			f.options.Keys[fleet.TenantID(name)] = t.Key
		}
	}
	if _, ok := r.Tenants[devTenant]; ok && len(f.tenants) == 0 && len(f.keys) == 0 {
		f.tenants = []string{devTenant}
	}
}

// readKey reads an API key from a file. Its errors don't repeat it.
func readKey(file string) (string, error) {
	from, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer from.Close()
	b, err := io.ReadAll(io.LimitReader(from, maxKey+1))
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(b))
	if key == "" || len(b) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s does not hold one key and nothing else", file)
	}
	return key, nil
}

// reach asks every target which models it serves, so that one where nobody answers, or with a wrong
// key, is found before anything is sent. A target that has no such list answers too: then there are no
// models.
func (f *replayFlags) reach(ctx context.Context) (models []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true} // without the environment's proxies, as what follows
	client := &http.Client{
		Transport: transport,
		// A redirect would take the key to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	targets := map[string]string{}
	if f.options.URL != "" {
		targets[f.options.URL] = "--target " + f.options.URL
	}
	for region, where := range f.options.URLs {
		targets[where] = fmt.Sprintf("target of %s, %s", region, where)
	}
	for _, where := range slices.Sorted(maps.Keys(targets)) {
		served, err := f.ask(ctx, client, where)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", targets[where], err)
		}
		models = append(models, served...)
	}
	slices.Sort(models)
	return slices.Compact(models), nil
}

// ask is one target's list of models.
func (f *replayFlags) ask(ctx context.Context, client *http.Client, where string) ([]string, error) {
	list, err := url.JoinPath(where, "/v1/models")
	if err != nil {
		return nil, errors.New("is no URL")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, list, http.NoBody)
	if err != nil {
		return nil, errors.New("is no URL")
	}
	key, whose := f.credential()
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, fmt.Errorf("nothing answers there: %w; start it, or name another --target", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized && key == "":
		return nil, errors.New("it wants an API key (401): set ANABRANCH_API_KEY, or --key TENANT=FILE for each tenant")
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("it does not take the API key of %s (401)", whose)
	case resp.StatusCode != http.StatusOK:
		return nil, nil
	}
	var answer struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxModels)).Decode(&answer) != nil {
		return nil, nil // another kind of server, which may still take requests
	}
	var models []string
	for _, m := range answer.Data {
		if fleet.CheckModel(m.ID) == nil {
			models = append(models, m.ID)
		}
	}
	return models, nil
}

// credential is the key that the list is asked with, and whose it is, in words.
func (f *replayFlags) credential() (key, whose string) {
	if f.options.Key != "" {
		return f.options.Key, "ANABRANCH_API_KEY"
	}
	for _, tenant := range slices.Sorted(maps.Keys(f.options.Keys)) {
		return f.options.Keys[tenant], "tenant " + string(tenant)
	}
	return "", ""
}
