package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestWhatIsHidden(t *testing.T) {
	for words, want := range map[string]string{
		"operation error Pricing: GetProducts, https response error StatusCode: 400, RequestID: 0f1e2d3c-1111-2222-3333-444455556666, api error AccessDeniedException: User: arn:aws:sts::123456789012:assumed-role/anabranch-prod/i-0abc1234def567890 is not authorized to perform: pricing:GetProducts because no identity-based policy allows the pricing:GetProducts action": "operation error Pricing: GetProducts, https response error StatusCode: 400, api error AccessDeniedException: User: (name) is not authorized to perform: pricing:GetProducts because no identity-based policy allows the pricing:GetProducts action",
		"operation error EC2: DescribeSpotPriceHistory, https response error StatusCode: 403, RequestID: r-1, api error UnauthorizedOperation: You are not authorized. Encoded authorization failure message: xAbC-123_zz":                                                                                                                                                       "operation error EC2: DescribeSpotPriceHistory, https response error StatusCode: 403, api error UnauthorizedOperation: You are not authorized. (more is encoded)",
		"StatusCode: 400, RequestID: , HostID: h+/=, api error":                                                       "StatusCode: 400, api error",
		"profile \"prod\", 'arn:aws-us-gov:iam::123456789012:role/x', AKIAIOSFODNN7EXAMPLE and AROA1234567890ABCDEFG": "profile \"prod\", '(name)', (id) and (id)",
		"account 123456789012 on i-0abc1234":                                                                          "account (account) on (instance)",
		"Post \"https://ce.us-east-1.amazonaws.com/\": dial tcp: no such host":                                        "Post \"https://ce.us-east-1.amazonaws.com/\": dial tcp: no such host",
		"price of p5.48xlarge in us-east-1: there are more than 20 pages":                                             "price of p5.48xlarge in us-east-1: there are more than 20 pages",
		"1234567890123 is no account, and 98.3200000000 no dollars":                                                   "1234567890123 is no account, and 98.3200000000 no dollars",
	} {
		if got := Text(words); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", words, got, want)
		}
		if got := Text(want); got != want {
			t.Errorf("once more %s became %s", want, got)
		}
	}
}

func TestWhatAnErrorWrapsIsFound(t *testing.T) {
	why := errors.New("User: arn:aws:iam::123456789012:user/ann is not authorized")
	got := fmt.Errorf("prices: %w", Plain(fmt.Errorf("call: %w", why)))
	if !errors.Is(got, why) || got.Error() != "prices: call: User: (name) is not authorized" {
		t.Errorf("%v", got)
	}
	if Plain(nil) != nil {
		t.Error("nothing became an error")
	}
}
