package awsprice

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"anabranch/costmodel"
)

// maxItem is how long the text about one product may be. They have about 10 KB.
const maxItem = 1 << 20

// item is what is read of an element of the PriceList, in format aws_v1:
// https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
type item struct {
	Product struct {
		Attributes map[string]string `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			EffectiveDate   string `json:"effectiveDate"`
			PriceDimensions map[string]struct {
				Unit         string            `json:"unit"`
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
	PublicationDate string `json:"publicationDate"`
}

// price is what an hour of one instance costs from a time on.
type price struct {
	perHour costmodel.Micros
	// gpus of the instance; 0: not told.
	gpus int
	// from is when the price begins, published when the list was made; zero: not told.
	from, published time.Time
}

// parse finds the prices per hour in the text about one product, the dearest first. There are none if one of
// the product's attributes is told and not as wanted. Prices of nothing are left out: the list has them for
// hours that are paid for elsewhere, such as those of reserved capacity.
func parse(text string, wanted map[string]string) ([]price, error) {
	if len(text) > maxItem {
		return nil, fmt.Errorf("the text about a product has more than %d KiB", maxItem>>10)
	}
	var it item
	if err := json.Unmarshal([]byte(text), &it); err != nil {
		return nil, err
	}
	attributes := it.Product.Attributes
	if attributes["instanceType"] == "" {
		return nil, errors.New("a product without an instance type")
	}
	for name, value := range wanted {
		if told, ok := attributes[name]; ok && told != value {
			return nil, nil
		}
	}
	published, err := moment(it.PublicationDate)
	if err != nil {
		return nil, err
	}
	gpus, _ := strconv.Atoi(attributes["gpu"]) // accelerators that are no GPUs are not told
	var all []price
	for _, term := range it.Terms.OnDemand {
		from, err := moment(term.EffectiveDate)
		if err != nil {
			return nil, err
		}
		for _, d := range term.PriceDimensions {
			if d.Unit != "Hrs" {
				continue
			}
			usd, ok := d.PricePerUnit["USD"]
			if !ok {
				return nil, errors.New("a price is not in dollars")
			}
			perHour, err := costmodel.ParseUSD(usd)
			if err != nil {
				return nil, err
			}
			if perHour > 0 {
				all = append(all, price{perHour, max(gpus, 0), from, published})
			}
		}
	}
	slices.SortFunc(all, func(a, b price) int { return cmp.Or(cmp.Compare(b.perHour, a.perHour), a.from.Compare(b.from)) })
	return all, nil
}

// moment is zero where nothing is said.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is no time", text)
	}
	return at.UTC(), nil
}
