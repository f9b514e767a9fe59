package rest

import (
	"bytes"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"

	"anabranch/api"
	"anabranch/controlplane/access"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/failover/drill"
)

// operation is one operation of the OpenAPI document.
type operation struct {
	OperationID string `yaml:"operationId"`
	Summary     string `yaml:"summary"`
	// Needs is the right that a caller needs, or "none".
	Needs string `yaml:"x-anabranch-needs"`
	// Scope says what the caller's scope means; empty: the operation is for those who have none.
	Scope     string `yaml:"x-anabranch-scope"`
	Responses map[string]struct {
		Ref     string         `yaml:"$ref"`
		Content map[string]any `yaml:"content"`
	} `yaml:"responses"`
}

type schema struct {
	Properties           map[string]any `yaml:"properties"`
	Required             []string       `yaml:"required"`
	AdditionalProperties any            `yaml:"additionalProperties"`
}

type document struct {
	OpenAPI string `yaml:"openapi"`
	// Rights says which roles have a right.
	Rights     map[string][]string               `yaml:"x-anabranch-rights"`
	Paths      map[string]map[string]yamlv3.Node `yaml:"paths"`
	Components struct {
		Schemas map[string]schema `yaml:"schemas"`
	} `yaml:"components"`
}

// contract is the document, read once.
var contract = sync.OnceValue(func() document {
	var d document
	if err := yamlv3.Unmarshal(api.OpenAPI, &d); err != nil {
		panic(err)
	}
	return d
})

// operations maps "GET /v1/regions/{name}" to what the document says.
var operations = sync.OnceValue(func() map[string]operation {
	all := map[string]operation{}
	for path, methods := range contract().Paths {
		for method, node := range methods {
			if method == "parameters" {
				continue
			}
			var o operation
			if err := node.Decode(&o); err != nil {
				panic(err)
			}
			all[strings.ToUpper(method)+" "+path] = o
		}
	}
	return all
})

// fits compares segment by segment; a parameter takes any but an empty one, up to what stands after it.
func fits(template, path []string) bool {
	return slices.EqualFunc(template, path, func(t, p string) bool {
		_, verb, parameter := strings.Cut(t, "}")
		value, ends := strings.CutSuffix(p, verb)
		return t == p || parameter && ends && value != ""
	})
}

func TestEveryRouteIsDocumentedAndEveryPathIsServed(t *testing.T) {
	d := newDouble(t)
	served := map[string]bool{}
	for _, r := range d.server.echo.Routes() {
		if strings.HasSuffix(r.Path, "/*") {
			continue // the console and what does not exist
		}
		served[r.Method+" "+template(r.Path)] = true
	}
	for route := range served {
		if _, ok := operations()[route]; !ok {
			t.Errorf("%s is served and not documented", route)
		}
	}
	ids := map[string]string{}
	for route, o := range operations() {
		if !served[route] {
			t.Errorf("%s is documented and not served", route)
		}
		if other := ids[o.OperationID]; other != "" || o.OperationID == "" || o.Summary == "" {
			t.Errorf("%s has no summary, or the operation id of %s", route, other)
		}
		ids[o.OperationID] = route
	}
	if contract().OpenAPI != "3.1.0" {
		t.Errorf("version %s", contract().OpenAPI)
	}
}

func TestSchemasHaveTheFieldsOfTheStructs(t *testing.T) {
	structs := map[string]any{
		"Metadata": policy.Metadata{}, "Manager": policy.Manager{}, "FieldProblem": policy.Problem{}, "Change": policy.Change{},
		"RegionSpec": policy.RegionSpec{}, "ClusterSpec": policy.ClusterSpec{}, "EndpointSpec": policy.EndpointSpec{}, "AuthSpec": policy.AuthSpec{},
		"DiscoverySpec": policy.DiscoverySpec{}, "MatchSpec": policy.MatchSpec{}, "HeaderSpec": policy.HeaderSpec{}, "RewriteSpec": policy.RewriteSpec{},
		"ArmSpec": policy.ArmSpec{}, "ShadowSpec": policy.ShadowSpec{}, "HedgeSpec": policy.HedgeSpec{}, "BrownoutSpec": policy.BrownoutSpec{},
		"GPUSpec": policy.GPUSpec{}, "ModelSpec": policy.ModelSpec{}, "TenantSpec": policy.TenantSpec{}, "APIKeySpec": policy.APIKeySpec{}, "JWTSpec": policy.JWTSpec{},
		"TrafficPolicySpec": policy.TrafficPolicySpec{}, "RegionWish": policy.RegionWish{}, "PremiumSpec": policy.PremiumSpec{}, "FailoverSpec": policy.FailoverSpec{},
		"QuotaSpec": policy.QuotaSpec{}, "LimitSpec": policy.LimitSpec{}, "QuotaStoreSpec": policy.QuotaStoreSpec{}, "RateCardSpec": policy.RateCardSpec{}, "GPUPrice": policy.GPUPrice{}, "ModelPrice": policy.ModelPrice{},
		"LanePrice": policy.LanePrice{}, "CarbonSpec": policy.CarbonSpec{}, "RegionCarbon": policy.RegionCarbon{}, "GPUPower": policy.GPUPower{},
		"SafetyRuleSpec": policy.SafetyRuleSpec{}, "RolloutSpec": policy.RolloutSpec{}, "CanarySpec": policy.CanarySpec{}, "StageSpec": policy.StageSpec{},
		"DrillPlanSpec": policy.DrillPlanSpec{}, "DrillTarget": policy.DrillTarget{}, "DrillStep": policy.DrillStep{}, "DrillFailback": policy.DrillFailback{},
		"DrillAbort": policy.DrillAbort{}, "DrillLimit": policy.DrillLimit{}, "DrillSchedule": policy.DrillSchedule{}, "DrillBlackout": policy.DrillBlackout{},
		"DrillRulesSpec": policy.DrillRulesSpec{}, "DrillWindow": policy.DrillWindow{},
		"Rollout": Rollout{}, "Cohort": Cohort{}, "Bake": Bake{}, "TenantMove": plan.TenantMove{}, "StageBake": StageBake{}, "ErrorGate": ErrorGate{}, "FailureCount": FailureCount{}, "RolloutRouter": RolloutRouter{}, "Freeze": Freeze{}, "ErrorBudgetSpec": policy.ErrorBudgetSpec{}, "ChangeLimitSpec": policy.ChangeLimitSpec{}, "ApprovalSpec": policy.ApprovalSpec{},
		"Proposal": Proposal{}, "Person": Person{}, "Approval": Approval{}, "ApproveOrder": ApproveOrder{}, "BrokenGlass": BrokenGlass{}, "ProposalList": List[Proposal]{},
		"Problem": Problem{}, "DryRun": DryRun{}, "Warning": policy.Warning{}, "Simulation": Simulation{}, "Move": plan.Move{}, "ShareMove": plan.ShareMove{}, "Forecast": Forecast{}, "Event": Event{}, "Member": Member{}, "Status": Status{}, "Router": Router{}, "TableAnswer": TableAnswer{}, "Explanation": Explanation{}, "Origin": Origin{}, "Followed": Followed{}, "Dropped": Dropped{}, "AuditEntry": audit.Entry{}, "AuditChange": audit.Change{},
		"Scope": access.Scope{}, "Token": Token{}, "IssuedToken": IssuedToken{}, "NewToken": NewToken{}, "Rotation": Rotation{}, "Whoami": Whoami{}, "TokenList": List[Token]{},
		"SignInWays": SignInWays{}, "SignInConfig": oidc.Config{}, "Grant": oidc.Grant{}, "SignInTokens": oidc.Tokens{},
		"Capabilities": Capabilities{}, "Capability": Capability{}, "Session": Session{}, "SessionAsk": SessionAsk{}, "SessionCode": SessionCode{},
		"ExplainedNow": ExplainedNow{}, "DecidedThen": DecidedThen{}, "PlaceNow": PlaceNow{}, "PlaceThen": PlaceThen{}, "Series": Series{}, "SeriesLine": SeriesLine{}, "SeriesUnits": SeriesUnits{}, "Hello": Hello{}, "Heartbeat": Heartbeat{}, "Relist": Relist{}, "Bye": Bye{}, "DrillEventOf": DrillEventOf{}, "LiveFleet": LiveFleet{}, "LiveRegion": LiveRegion{},
		"RouterCounts": RouterCounts{}, "LiveCluster": LiveCluster{}, "LiveModel": LiveModel{}, "LiveWeights": LiveWeights{}, "LiveWeight": LiveWeight{}, "RouterStanding": RouterStanding{},
		"LiveUsage": LiveUsage{}, "LiveLimit": LiveLimit{}, "LiveStatus": LiveStatus{},
		"NewMember": NewMember{}, "TransferOrder": TransferOrder{}, "Transferred": Transferred{},
		"RegionStatus": RegionStatus{}, "ClusterHealth": ClusterHealth{}, "RegionSignals": RegionSignals{}, "ClusterStatus": ClusterStatus{},
		"ClusterSignals": ClusterSignals{}, "Endpoints": Endpoints{}, "Observer": Observer{}, "Weight": Weight{},
		"ModelHealth": ModelHealth{}, "ModelState": ModelState{}, "Votes": Votes{}, "UnwellPlace": UnwellPlace{},
		"Fleet": Fleet{}, "FleetRegion": FleetRegion{}, "FleetCluster": FleetCluster{}, "FleetWeights": FleetWeights{}, "FleetWeight": FleetWeight{},
	}
	for _, k := range policy.Kinds() {
		structs[string(k)] = policy.Resource{}
		structs[string(k)+"List"] = List[policy.Resource]{}
		if _, ok := structs[reflect.TypeOf(policy.NewSpec(k)).Elem().Name()]; !ok {
			t.Errorf("the spec of %s is not among the structs of this test", k)
		}
	}
	structs["MemberList"], structs["AuditEntryList"], structs["RouterList"] = List[Member]{}, List[audit.Entry]{}, List[Router]{}
	structs["RolloutList"] = List[Rollout]{}
	structs["RolloutRouterList"] = List[RolloutRouter]{}
	structs["Drill"], structs["DrillEvent"], structs["DrillList"], structs["NewDrill"], structs["DrillApproval"] = Drill{}, DrillEvent{}, List[Drill]{}, NewDrill{}, DrillApproval{}
	structs["DrillDryRun"], structs["DrillResolved"], structs["DrillForecast"] = DrillDryRun{}, drill.Resolved{}, drill.Forecast{}
	structs["DrillSurvivor"], structs["DrillStranded"], structs["DrillSlower"] = drill.Survivor{}, drill.Stranded{}, drill.Slower{}
	structs["DrillReadiness"], structs["RegionReadiness"], structs["DrillBlock"], structs["LastDrill"] = DrillReadiness{}, drill.Readiness{}, drill.Block{}, drill.LastRun{}
	structs["DrillCalendar"], structs["ComingDrill"] = DrillCalendar{}, ComingDrill{}
	structs["SignedFor"] = SignedFor{}
	structs["EmergencyOrder"], structs["EmergencyOrderList"], structs["EmergencyAsk"] = EmergencyOrder{}, List[EmergencyOrder]{}, EmergencyAsk{}
	structs["SignedOrder"], structs["SignedTaken"], structs["HeldOrder"] = SignedAsk{}, SignedTaken{}, HeldOrder{}
	structs["PlanAnswer"], structs["ExplainedDemand"], structs["ExplainedObjective"], structs["ExplainedRoute"] = PlanAnswer{}, plan.ExplainedDemand{}, plan.ExplainedObjective{}, plan.ExplainedRoute{}
	structs["Constraint"], structs["ExplainedCost"], structs["ExplainedPrice"], structs["ExplainedGPUs"] = plan.Constraint{}, plan.ExplainedCost{}, plan.ExplainedPrice{}, plan.ExplainedGPUs{}
	structs["ExplainedCapacity"], structs["ExplainedLoad"], structs["Lever"] = plan.ExplainedCapacity{}, plan.ExplainedLoad{}, plan.Lever{}
	structs["PlanChange"], structs["PriceChange"], structs["DemandChange"], structs["CapacityChange"] = plan.Change{}, plan.PriceChange{}, plan.DemandChange{}, plan.CapacityChange{}
	structs["WhatIfAnswer"], structs["SupposedSimulation"], structs["Picture"], structs["Money"] = WhatIfAnswer{}, SupposedSimulation{}, plan.Picture{}, plan.Money{}
	structs["Survival"], structs["SurvivalRow"], structs["Loss"], structs["Headroom"] = plan.Survival{}, plan.SurvivalRow{}, plan.Loss{}, plan.Headroom{}
	structs["ShedTier"], structs["StrandedWork"], structs["StrandedTenant"] = plan.Tier{}, plan.Stranded{}, plan.StrandedTenant{}
	structs["CapacityAdvice"], structs["DemandOutlook"], structs["ClusterAdvice"] = plan.Advice{}, plan.DemandOutlook{}, plan.ClusterAdvice{}
	structs["ShedWork"] = plan.ShedWork{}
	structs["DemandPicture"], structs["ClusterShare"], structs["SitePicture"] = plan.DemandPicture{}, plan.ClusterShare{}, plan.SitePicture{}
	structs["CollectSpec"], structs["PinSpec"] = policy.CollectSpec{}, policy.PinSpec{}
	structs["DrillPlanSpec"], structs["DrillTarget"], structs["DrillStep"], structs["DrillFailback"] = policy.DrillPlanSpec{}, policy.DrillTarget{}, policy.DrillStep{}, policy.DrillFailback{}
	structs["DrillAbort"], structs["DrillLimit"], structs["DrillSchedule"], structs["DrillBlackout"] = policy.DrillAbort{}, policy.DrillLimit{}, policy.DrillSchedule{}, policy.DrillBlackout{}
	structs["DrillRulesSpec"], structs["DrillWindow"] = policy.DrillRulesSpec{}, policy.DrillWindow{}
	structs["ClusterEndpoints"], structs["EndpointSight"], structs["EndpointModel"], structs["SilentRouter"] = ClusterEndpoints{}, EndpointSight{}, EndpointModel{}, SilentRouter{}
	structs["Source"], structs["SourceList"] = Source{}, List[Source]{}
	structs["PriceList"], structs["ClusterPrice"], structs["GPUsCost"], structs["PriceDoubt"], structs["PriceSource"] = PriceList{}, ClusterPrice{}, GPUsCost{}, PriceDoubt{}, PriceSource{}
	structs["Usage"], structs["LimitUsage"], structs["LimitUsageList"], structs["RegionLimitUsage"] = Usage{}, LimitUsage{}, List[LimitUsage]{}, RegionLimitUsage{}
	structs["Bills"], structs["BilledDay"], structs["BilledGoods"] = Bills{}, BilledDay{}, BilledGoods{}
	structs["Costs"], structs["CostGap"], structs["CostRow"], structs["CostSum"] = Costs{}, CostGap{}, CostRow{}, CostSum{}
	structs["CostEvents"], structs["CostEvent"], structs["CostExtra"], structs["TenantExtra"] = CostEvents{}, CostEvent{}, CostExtra{}, TenantExtra{}
	structs["RemainingEstimate"], structs["BudgetUsage"] = RemainingEstimate{}, BudgetUsage{}
	structs["TableVersion"], structs["TableVersionList"], structs["TableChange"], structs["WeightMove"] = TableVersion{}, List[TableVersion]{}, TableChange{}, WeightMove{}
	structs["ListCount"], structs["ListChange"], structs["TableDiff"] = ListCount{}, plan.ListChange{}, TableDiff{}
	structs["Version"], structs["VersionList"], structs["ResourceDiff"], structs["RollbackOrder"] = Version{}, List[Version]{}, ResourceDiff{}, RollbackOrder{}
	// Records are the routers', whose structs package rest does not know; a test of cmd/anabranch holds them to these.
	records := []string{"Explanation", "ExplainedCandidate", "ExplainedRemoval", "ExplainedAttempt", "ExplainedExpectation", "ExplainedSkip", "ExplainedRefusal"}
	delete(structs, "Explanation")
	for name, s := range contract().Components.Schemas {
		v, ok := structs[name]
		if slices.Contains(records, name) {
			continue
		}
		if !ok {
			if len(s.Properties) > 0 {
				t.Errorf("schema %s has properties, and no struct", name)
			}
			continue
		}
		delete(structs, name)
		want := properties(reflect.TypeOf(v))
		var got []string
		for p := range s.Properties {
			got = append(got, p)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("schema %s has %q, the struct %q", name, got, want)
		}
		for _, r := range s.Required {
			if !slices.Contains(want, r) {
				t.Errorf("schema %s requires %s, which it lacks", name, r)
			}
		}
	}
	for name := range structs {
		t.Errorf("%s has no schema", name)
	}
}

// properties lists the JSON names of a struct's fields, embedded ones included.
func properties(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			names = append(names, properties(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	slices.Sort(names) // what stands outside hides what is embedded
	return slices.Compact(names)
}

func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	var whole map[string]any
	if err := yamlv3.Unmarshal(api.OpenAPI, &whole); err != nil {
		t.Fatal(err)
	}
	refs := regexp.MustCompile(`\$ref: '#/([^']+)'`).FindAllStringSubmatch(string(api.OpenAPI), -1)
	if len(refs) < 100 {
		t.Fatalf("only %d references found", len(refs))
	}
	for _, ref := range refs {
		var at any = whole
		for _, step := range strings.Split(ref[1], "/") {
			m, ok := at.(map[string]any)
			if !ok || m[step] == nil {
				t.Errorf("%s leads nowhere", ref[0])
				break
			}
			at = m[step]
		}
	}
}

func TestEveryCodeOfAProblemIsDocumented(t *testing.T) {
	for code, k := range kinds {
		if code == codeMethod || code == codeInternal {
			continue // any path may answer them
		}
		if !bytes.Contains(api.OpenAPI, []byte(code)) {
			t.Errorf("%s (%d) is not in the document", code, k.status)
		}
		if k.title == "" || k.status < 400 {
			t.Errorf("%s has status %d and title %q", code, k.status, k.title)
		}
	}
}

func TestTheDocumentIsServed(t *testing.T) {
	d := newDouble(t)
	a := d.do("", "GET", "/v1/openapi.yaml", "").want(200, "")
	if !bytes.Equal(a.body, api.OpenAPI) || a.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("%s, %d bytes", a.header.Get("Content-Type"), len(a.body))
	}
}

// keepsContract holds an answer of any test to the document.
func keepsContract(t *testing.T, method, path string, a answer) {
	t.Helper()
	if method == "HEAD" {
		return
	}
	o, ok := operationNode(method, path)
	if !ok || a.status == 405 || a.status == 500 {
		return
	}
	for _, wrong := range breaches(o, a.status, a.header.Get("Content-Type"), a.body) {
		t.Errorf("%s %s: %s", method, path, wrong)
	}
}

func TestEveryOperationWithATokenDocumentsWhatAnyMayAnswer(t *testing.T) {
	for route, o := range operations() {
		if o.Needs == "none" {
			continue
		}
		for _, status := range []string{"400", "401", "503"} {
			if _, ok := o.Responses[status]; !ok {
				t.Errorf("%s may answer %s, which the document does not say", route, status)
			}
		}
	}
}
