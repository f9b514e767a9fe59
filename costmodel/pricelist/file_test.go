package pricelist

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/costmodel"
)

func day(d int) time.Time { return time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC) }

// both offers, as each of the formats writes them.
var both = []costmodel.Offer{
	{
		Class: "h100", Instance: "p5.48xlarge", GPUs: 8, Region: "eu", Zone: "eu-a", Purchase: costmodel.Reserved, PerHour: 27_123_457,
		From: day(1), Until: day(30).Add(12 * time.Hour), AsOf: day(29), Origin: costmodel.File, Source: "our contract", Estimate: true,
	},
	{Class: "l40s", Region: "us", PerHour: 1_860_000, Origin: costmodel.File},
}

const written = `# prices of our contract
class,usdPerHour,instance,gpus,region,zone,purchase,from,until,asOf,source,estimate
h100,27.1234567,p5.48xlarge,8,eu,eu-a,reserved,2026-11-01,2026-11-30T13:00:00+01:00,2026-11-29,our contract,true
l40s,1.86,,,us,,,,,,,
`

func TestFilesOfOffersAreRead(t *testing.T) {
	for name, text := range map[string]string{
		"a.csv": written,
		"a.CSV": strings.ReplaceAll(written, "\n", "\r\n"),
		"a.yaml": `
offers:
- {class: h100, instance: p5.48xlarge, gpus: 8, region: eu, zone: eu-a, purchase: reserved, usdPerHour: "27.1234567",
   from: "2026-11-01", until: "2026-11-30T12:00:00Z", asOf: "2026-11-29", source: our contract, estimate: true}
- {class: l40s, region: us, usdPerHour: 1.86}
`,
		"a.json": `{"offers":[{"class":"h100","instance":"p5.48xlarge","gpus":8,"region":"eu","zone":"eu-a","purchase":"reserved",
			"usdPerHour":27.1234567,"from":"2026-11-01","until":"2026-11-30T12:00:00Z","asOf":"2026-11-29","source":"our contract","estimate":true},
			{"class":"l40s","region":"us","usdPerHour":"1.86"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(both)
			want[1].Source = path
			f := File{Path: path}
			if got, err := f.Offers(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %+v, %v", got, err)
			}
			if f.Name() != "file "+path {
				t.Errorf("called %q", f.Name())
			}
		})
	}
}

func TestWhatIsWrongWithAFileIsTold(t *testing.T) {
	const head = "class,region,usdPerHour,gpus,purchase,from,estimate\n"
	for name, c := range map[string]struct{ ending, text, want string }{
		"an unknown column":     {".csv", "class,colour\n", `"colour"`},
		"a column twice":        {".csv", "class,class\n", "twice"},
		"nothing":               {".csv", "", "does not name the columns"},
		"a short line":          {".csv", head + "h100,eu\n", "wrong number of fields"},
		"a stray quote":         {".csv", "cl\"ass\n", "quote"},
		"no class":              {".csv", head + "h100,eu,1,,,,\n,eu,1,,,,\n", "line 3: an offer needs"},
		"no price":              {".csv", head + "h100,eu,,,,,\n", "line 2: an offer needs"},
		"a negative price":      {".csv", head + "h100,eu,-1,,,,\n", "line 2: usdPerHour"},
		"a count that is none":  {".csv", head + "h100,eu,1,many,,,\n", "line 2: gpus"},
		"fewer than no GPUs":    {".csv", head + "h100,eu,1,-1,,,\n", "can't be bought"},
		"an unknown purchase":   {".csv", head + "h100,eu,1,,stolen,,\n", `"stolen"`},
		"no time":               {".csv", head + "h100,eu,1,,,soon,\n", "line 2: from"},
		"neither yes nor no":    {".csv", head + "h100,eu,1,,,,perhaps\n", "estimate"},
		"an unknown field":      {".yaml", "offers:\n- {class: h100, colour: red}\n", "colour"},
		"an unknown list":       {".json", `{"prices":[]}`, "prices"},
		"which of several":      {".yaml", "offers:\n- {class: h100, region: eu, usdPerHour: 1}\n- {class: h100}\n", "offers[1]"},
		"a price that is a map": {".json", `{"offers":[{"usdPerHour":{}}]}`, "usdPerHour"},
		"another ending":        {".txt", "", `".txt"`},
		"too many":              {".csv", head + strings.Repeat("h100,eu,1,,,,\n", maxOffers+1), "more than 50000"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.ending, []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("%d offers, error %v, want %q", len(got), err, c.want)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "a.csv")
	if _, err := (File{Path: path}).Offers(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (File{Path: path}).Offers(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("a long file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(".csv", []byte(written))
	f.Add(".yaml", []byte("offers:\n- {class: h100, region: eu, usdPerHour: 1.5, until: \"2026-11-30\"}\n"))
	f.Add(".json", []byte(`{"offers":[{"class":"h100","region":"eu","usdPerHour":"1e3"}]}`))
	f.Fuzz(func(t *testing.T, ending string, text []byte) {
		got, err := Parse(ending, text)
		if err != nil && got != nil {
			t.Errorf("%d offers with %v", len(got), err)
		}
		for _, o := range got {
			if o.Class == "" || o.Region == "" || o.PerHour < 0 || o.GPUs < 0 || o.Origin != costmodel.File {
				t.Errorf("%+v", o)
			}
		}
	})
}
