package rest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// tenantsTimes measures a table by its tenants.
func tenantsTimes(bytes int) func(*Options) {
	return func(o *Options) {
		o.TableSize = func(v *state.View) (int, error) { return bytes * len(v.List(policy.KindTenant)), nil }
	}
}

func TestAWriteThatMakesTheTableTooLargeIsRefused(t *testing.T) {
	d := newDouble(t, tenantsTimes(TableBudget/2))
	d.seed("Tenant a {}", "Tenant b {}", "Model m {}")
	for _, path := range []string{"/v1/tenants", "/v1/tenants?dry_run=true"} {
		p := d.do("operator", "POST", path, doc("Tenant", "c", "{}"), yaml).want(422, codeOverBudget).problem()
		if len(p.Errors) != 1 || p.Errors[0].Field == "" || p.Errors[0].Fix == "" || !strings.Contains(p.Detail, fmt.Sprint(TableBudget)) {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if n := len(d.current().List(policy.KindTenant)); n != 2 {
		t.Errorf("%d tenants", n)
	}
	d.do("operator", "PATCH", "/v1/tenants/a", `{"spec":{"tier":"top"}}`, "If-Match: *").want(200, "")
	d.do("operator", "DELETE", "/v1/tenants/a", "", "If-Match: *").want(204, "")
	d.seed("Tenant c {}")
}

func TestWhatIsOverTheBudgetAlreadyMayBeChangedIfItDoesNotGrow(t *testing.T) {
	d := newDouble(t, func(o *Options) {
		o.TableSize = func(v *state.View) (int, error) { return 10*TableBudget + len(v.List(policy.KindTenant)), nil }
	})
	d.do("operator", "POST", "/v1/models", doc("Model", "m", "{}"), yaml).want(201, "")
	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "a", "{}"), yaml).want(422, codeOverBudget)
}

func TestATableThatCannotBeMeasuredIsAnError(t *testing.T) {
	d := newDouble(t, func(o *Options) {
		o.TableSize = func(*state.View) (int, error) { return 0, errors.New("no") }
	})
	d.do("operator", "POST", "/v1/models", doc("Model", "m", "{}"), yaml).want(500, codeInternal)
}

func TestALargeDocumentIsRefusedWithItsSize(t *testing.T) {
	d := newDouble(t)
	var models strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&models, "a%d-%s, ", i, strings.Repeat("x", 40))
	}
	p := d.do("operator", "POST", "/v1/models", doc("Model", "m", "{aliases: ["+strings.TrimSuffix(models.String(), ", ")+"]}"), yaml).problem()
	if p.Status != 422 || p.Code != codeOverBudget && p.Code != codeInvalid || len(p.Errors) == 0 || p.Errors[0].Fix == "" {
		t.Errorf("got %+v", p)
	}
}
