package pricelist

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"anabranch/costmodel"
)

// Bounds of a file.
const (
	maxFile   = 4 << 20
	maxOffers = 50_000
)

// File is a source that reads a file of offers anew each time that it is asked. The name's ending says what
// it is: .csv, with a first line that names the columns, or .json, .yaml and .yml, with a list "offers" of
// objects. Columns and fields are those of [Row].
type File struct{ Path string }

// Name is "file" and the path.
func (f File) Name() string { return "file " + f.Path }

// Row is an offer as it stands in a file. Class, region and usdPerHour are required.
type Row struct {
	Class    string `json:"class"`
	Instance string `json:"instance,omitempty"`
	// GPUs that usdPerHour buys; default 1.
	GPUs     int    `json:"gpus,omitempty"`
	Region   string `json:"region"`
	Zone     string `json:"zone,omitempty"`
	Purchase string `json:"purchase,omitempty"` // default on-demand
	// USDPerHour is a decimal number, in JSON and YAML with or without quotes.
	USDPerHour Decimal `json:"usdPerHour"`
	// From, Until and AsOf are RFC 3339, or a day such as 2026-11-30, which begins in UTC.
	From  string `json:"from,omitempty"`
	Until string `json:"until,omitempty"`
	AsOf  string `json:"asOf,omitempty"`
	// Source is where the figure is published; default the file's path.
	Source   string `json:"source,omitempty"`
	Estimate bool   `json:"estimate,omitempty"`
}

// Decimal is the text of a number.
type Decimal string

// UnmarshalJSON takes numbers as they are written, and strings.
func (d *Decimal) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, (*string)(d))
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	*d = Decimal(n)
	return nil
}

// Offers reads the file.
func (f File) Offers(context.Context) ([]costmodel.Offer, error) {
	text, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	offers, err := Parse(filepath.Ext(f.Path), text)
	if err != nil {
		return nil, fmt.Errorf("read prices of %s: %w", f.Path, err)
	}
	for i := range offers {
		if offers[i].Source == "" {
			offers[i].Source = f.Path
		}
	}
	return offers, nil
}

func (f File) read() ([]byte, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d MiB", f.Path, maxFile>>20)
	}
	return text, nil
}

// Parse reads offers that are written as the ending of a file's name says: ".csv", ".json", ".yaml" or
// ".yml". Unknown columns and fields are errors. Their origin is [costmodel.File].
func Parse(ending string, text []byte) ([]costmodel.Offer, error) {
	var rows []Row
	var where func(i int) string
	var err error
	switch strings.ToLower(ending) {
	case ".csv":
		var lines []int
		rows, lines, err = parseCSV(text)
		where = func(i int) string { return fmt.Sprintf("line %d", lines[i]) }
	case ".json", ".yaml", ".yml":
		var list struct {
			Offers []Row `json:"offers"`
		}
		err = yaml.UnmarshalStrict(text, &list) // of which JSON is a part
		rows, where = list.Offers, func(i int) string { return fmt.Sprintf("offers[%d]", i) }
	default:
		return nil, fmt.Errorf("a file of prices ends in .csv, .json or .yaml, not in %.20q", ending)
	}
	if err != nil {
		return nil, err
	}
	if len(rows) > maxOffers {
		return nil, fmt.Errorf("there are more than %d offers", maxOffers)
	}
	offers := make([]costmodel.Offer, len(rows))
	for i, row := range rows {
		if offers[i], err = row.offer(); err != nil {
			return nil, fmt.Errorf("%s: %w", where(i), err)
		}
	}
	return offers, nil
}

// columns says what a column of a CSV file sets.
var columns = map[string]func(r *Row, value string) error{
	"class":      func(r *Row, v string) error { r.Class = v; return nil },
	"instance":   func(r *Row, v string) error { r.Instance = v; return nil },
	"gpus":       func(r *Row, v string) (err error) { r.GPUs, err = strconv.Atoi(v); return err },
	"region":     func(r *Row, v string) error { r.Region = v; return nil },
	"zone":       func(r *Row, v string) error { r.Zone = v; return nil },
	"purchase":   func(r *Row, v string) error { r.Purchase = v; return nil },
	"usdPerHour": func(r *Row, v string) error { r.USDPerHour = Decimal(v); return nil },
	"from":       func(r *Row, v string) error { r.From = v; return nil },
	"until":      func(r *Row, v string) error { r.Until = v; return nil },
	"asOf":       func(r *Row, v string) error { r.AsOf = v; return nil },
	"source":     func(r *Row, v string) error { r.Source = v; return nil },
	"estimate":   func(r *Row, v string) (err error) { r.Estimate, err = strconv.ParseBool(v); return err },
}

// parseCSV also says in which line each row begins. Empty cells are left out.
func parseCSV(text []byte) (rows []Row, lines []int, err error) {
	in := csv.NewReader(bytes.NewReader(text))
	in.Comment = '#'
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("the first line does not name the columns")
	}
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for _, name := range head {
		if columns[name] == nil || seen[name] {
			return nil, nil, fmt.Errorf("the column %.40q is unknown or there twice", name)
		}
		seen[name] = true
	}
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, lines, nil
		}
		if err != nil {
			return nil, nil, err
		}
		line, _ := in.FieldPos(0)
		var row Row
		for i, cell := range cells {
			if cell == "" {
				continue
			}
			if err := columns[head[i]](&row, cell); err != nil {
				return nil, nil, fmt.Errorf("line %d: %s: %w", line, head[i], err)
			}
		}
		rows, lines = append(rows, row), append(lines, line)
	}
}

// purchases that a file may name.
var purchases = map[costmodel.Purchase]bool{
	"": true, costmodel.OnDemand: true, costmodel.Spot: true, costmodel.Reserved: true,
	costmodel.CapacityBlock: true, costmodel.Owned: true,
}

func (r Row) offer() (costmodel.Offer, error) {
	o := costmodel.Offer{
		Class: r.Class, Instance: r.Instance, GPUs: r.GPUs, Region: r.Region, Zone: r.Zone,
		Purchase: costmodel.Purchase(r.Purchase), Origin: costmodel.File, Source: r.Source, Estimate: r.Estimate,
	}
	switch {
	case r.Class == "" || r.Region == "" || r.USDPerHour == "":
		return o, errors.New("an offer needs class, region and usdPerHour")
	case r.GPUs < 0:
		return o, fmt.Errorf("%d GPUs can't be bought", r.GPUs)
	case !purchases[o.Purchase]:
		return o, fmt.Errorf("the purchase %.40q is none of on-demand, spot, reserved, capacity-block, owned", r.Purchase)
	}
	var err error
	if o.PerHour, err = costmodel.ParseUSD(string(r.USDPerHour)); err != nil {
		return o, fmt.Errorf("usdPerHour: %w", err)
	}
	for _, at := range []struct {
		name, text string
		to         *time.Time
	}{{"from", r.From, &o.From}, {"until", r.Until, &o.Until}, {"asOf", r.AsOf, &o.AsOf}} {
		if *at.to, err = moment(at.text); err != nil {
			return o, fmt.Errorf("%s: %w", at.name, err)
		}
	}
	return o, nil
}

// moment is zero where nothing is said.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is no time such as 2026-11-30T12:00:00Z nor a day", text)
	}
	return at.UTC(), nil
}
