package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
)

// Problem is an error answer after RFC 9457.
//
//nolint:errname // "problem" is the RFC's word for it
type Problem struct {
	// Type is urn:anabranch:problem: and the code.
	Type string `json:"type"`
	// Title says in a few words what kind of problem it is, Detail what is the matter this time.
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Code is stable, for programs.
	Code string `json:"code"`
	// Errors name each field that is wrong.
	Errors []policy.Problem `json:"errors,omitempty"`

	retryAfter time.Duration
	cause      string // of a refusal of who may, for the metrics
}

// The codes.
const (
	codeMalformed       = "malformed"
	codeInvalidRequest  = "invalid_request"
	codeUnauthenticated = "unauthenticated"
	codeForbidden       = "forbidden"
	codeOutOfScope      = "out_of_scope"
	codeNotFound        = "not_found"
	codeMethod          = "method_not_allowed"
	codeExists          = "exists"
	codeInUse           = "in_use"
	codeFieldOwned      = "field_owned"
	codePrecondition    = "precondition"
	codeGone            = "gone"
	codeTooMany         = "too_many_requests"
	codeSecretGone      = "secret_gone"
	codeTooLarge        = "too_large"
	codeMediaType       = "unsupported_media_type"
	codeInvalid         = "invalid"
	codeKeyReused       = "idempotency_key_reused"
	codeOverBudget      = "over_budget"
	codeRequired        = "precondition_required"
	codeInternal        = "internal"
	codeNotInitialised  = "not_initialised"
	codeNoLeader        = "no_leader"
	codeUnknownOutcome  = "unknown_outcome"
	codeReadOnly        = "read_only"
	codeBusy            = "busy"
	codeCatchingUp      = "catching_up"
	codeUpgradeNeeded   = "upgrade_needed"
	codeTimeout         = "timeout"
	codeTooFewVoters    = "too_few_voters"
	codeQuorumAtRisk    = "quorum_at_risk"
	codeAddressTaken    = "address_taken"
	codeNodeNotThere    = "node_not_there"
	codeForeignCluster  = "foreign_cluster"
	codeNotVoter        = "not_a_voter"
	codeNoSuccessor     = "no_successor"
	codeUnknownRequest  = "unknown_request"
	codeUnknownRouter   = "unknown_router"
	codeRouterAway      = "router_not_connected"
	codeRouterTooOld    = "router_too_old"
	codeRouterSilent    = "router_silent"
	codeFrozen          = "frozen"
	codeNotUnderWay     = "not_under_way"
	codeChangeTooLarge  = "change_too_large"
	codeLimitReached    = "limit_reached"
	codeNotPending      = "not_pending"
	codeProposalChanged = "proposal_changed"
	codeOwnProposal     = "own_proposal"
	codeNotProposer     = "not_proposer"
	codeDrillState      = "drill_state"
	codeDrillUnderWay   = "drill_under_way"
	codeNotApproved     = "not_approved"
	codeSignInRefused   = "sign_in_refused"
	codeSignature       = "signature_refused"
	codeOrderInvalid    = "order_invalid"
	codeOrderOver       = "order_over"
	codeSignInAway      = "sign_in_away"
	codeCrossOrigin     = "cross_origin"
	codeCodeSpent       = "code_spent"
	codeNoSession       = "no_session"
)

// titles and statuses of the codes.
var kinds = map[string]struct {
	status int
	title  string
}{
	codeMalformed:       {http.StatusBadRequest, "The document can't be read"},
	codeInvalidRequest:  {http.StatusBadRequest, "The request is wrong"},
	codeUnauthenticated: {http.StatusUnauthorized, "No valid token"},
	codeForbidden:       {http.StatusForbidden, "Not allowed for this role"},
	codeOutOfScope:      {http.StatusForbidden, "Out of the token's scope"},
	codeNotFound:        {http.StatusNotFound, "Not found"},
	codeMethod:          {http.StatusMethodNotAllowed, "Method not allowed here"},
	codeExists:          {http.StatusConflict, "It exists already"},
	codeInUse:           {http.StatusConflict, "Others still refer to it"},
	codeFieldOwned:      {http.StatusConflict, "Others have set it"},
	codePrecondition:    {http.StatusPreconditionFailed, "It has changed since it was read"},
	codeGone:            {http.StatusGone, "The history does not reach back so far"},
	codeTooMany:         {http.StatusTooManyRequests, "Too many requests"},
	codeSecretGone:      {http.StatusConflict, "The secret is not told again"},
	codeTooLarge:        {http.StatusRequestEntityTooLarge, "The body is too large"},
	codeMediaType:       {http.StatusUnsupportedMediaType, "The body's type is not supported"},
	codeInvalid:         {http.StatusUnprocessableEntity, "The resource is not valid"},
	codeKeyReused:       {http.StatusUnprocessableEntity, "The idempotency key stands for another request"},
	codeOverBudget:      {http.StatusUnprocessableEntity, "There would be more than fits"},
	codeRequired:        {http.StatusPreconditionRequired, "A precondition is required"},
	codeInternal:        {http.StatusInternalServerError, "Something went wrong in the control plane"},
	codeNotInitialised:  {http.StatusServiceUnavailable, "The control plane is not initialised yet"},
	codeNoLeader:        {http.StatusServiceUnavailable, "The control plane has no leader"},
	codeUnknownOutcome:  {http.StatusServiceUnavailable, "It is not known whether the change was made"},
	codeReadOnly:        {http.StatusServiceUnavailable, "The control plane takes no changes now"},
	codeBusy:            {http.StatusServiceUnavailable, "Too much at once"},
	codeCatchingUp:      {http.StatusServiceUnavailable, "This node is catching up"},
	codeUpgradeNeeded:   {http.StatusServiceUnavailable, "Some nodes are too old for it"},
	codeTimeout:         {http.StatusServiceUnavailable, "It took too long"},
	codeTooFewVoters:    {http.StatusConflict, "Too few voters would be left"},
	codeQuorumAtRisk:    {http.StatusConflict, "The majority would be lost"},
	codeAddressTaken:    {http.StatusConflict, "Another member has the address"},
	codeNodeNotThere:    {http.StatusConflict, "The node does not answer at its address"},
	codeForeignCluster:  {http.StatusConflict, "The node belongs to another cluster"},
	codeNotVoter:        {http.StatusConflict, "The member does not vote yet"},
	codeNoSuccessor:     {http.StatusServiceUnavailable, "Nobody took the leadership over"},
	codeUnknownRequest:  {http.StatusNotFound, "No such request is remembered"},
	codeUnknownRouter:   {http.StatusNotFound, "No such router"},
	codeRouterAway:      {http.StatusServiceUnavailable, "The router is not connected"},
	codeRouterTooOld:    {http.StatusServiceUnavailable, "The router can't be asked"},
	codeFrozen:          {http.StatusConflict, "Changes are frozen"},
	codeNotUnderWay:     {http.StatusConflict, "The rollout is not under way"},
	codeChangeTooLarge:  {http.StatusUnprocessableEntity, "The change would move too much at once"},
	codeRouterSilent:    {http.StatusGatewayTimeout, "The router does not answer"},
	codeLimitReached:    {http.StatusConflict, "There are as many as there may be"},
	codeNotPending:      {http.StatusConflict, "The proposal is decided already"},
	codeProposalChanged: {http.StatusConflict, "It is not what was looked at"},
	codeOwnProposal:     {http.StatusConflict, "Nobody approves what they propose"},
	codeNotProposer:     {http.StatusConflict, "Somebody else has proposed it"},
	codeDrillState:      {http.StatusConflict, "The drill is in another state"},
	codeDrillUnderWay:   {http.StatusConflict, "Another drill is under way"},
	codeNotApproved:     {http.StatusConflict, "The drill is not approved"},
	codeSignature:       {http.StatusForbidden, "The signature is not accepted"},
	codeOrderInvalid:    {http.StatusUnprocessableEntity, "The order is not valid"},
	codeOrderOver:       {http.StatusConflict, "The order is over"},
	codeSignInRefused:   {http.StatusBadRequest, "Not signed in"},
	codeSignInAway:      {http.StatusServiceUnavailable, "Nobody can sign in now"},
	codeCrossOrigin:     {http.StatusForbidden, "Sent by a page of another origin"},
	codeCodeSpent:       {http.StatusUnauthorized, "The code is not good any more"},
	codeNoSession:       {http.StatusConflict, "There is no session"},
}

// Error makes a Problem an error, for handlers to return.
func (p *Problem) Error() string { return fmt.Sprintf("%s: %s", p.Code, p.Detail) }

func newProblem(code, detail string, errors ...policy.Problem) *Problem {
	k := kinds[code]
	return &Problem{Type: "urn:anabranch:problem:" + code, Title: k.title, Status: k.status, Detail: detail, Code: code, Errors: errors}
}

func (p *Problem) after(d time.Duration) *Problem {
	p.retryAfter = d
	return p
}

// because says for the metrics why somebody was not let in.
func (p *Problem) because(cause string) *Problem {
	p.cause = cause
	return p
}

func problemUnauthenticated(detail string) *Problem { return newProblem(codeUnauthenticated, detail) }

func problemForbidden(role string, allowed []string) *Problem {
	if role == "" {
		return newProblem(codeForbidden, "You are known and have no role here: a binding of the OpenID provider's people to roles is missing.")
	}
	return newProblem(codeForbidden, fmt.Sprintf("The token's role is %s; this needs %s.", role, strings.Join(allowed, " or ")))
}

// problemUnscoped refuses an operation that no scope covers.
func problemUnscoped(scope access.Scope) *Problem {
	return newProblem(codeOutOfScope, fmt.Sprintf("The token's scope is %.256s; this is for tokens whose scope is everything.", scope))
}

func problemNotInitialised() *Problem {
	return newProblem(codeNotInitialised, "The first node has not set up the cluster yet.").after(time.Second).because("not_initialised")
}

// problemCatchingUp is of a node that does not have the state yet by which it would know who asks.
func problemCatchingUp() *Problem {
	return newProblem(codeCatchingUp, "This node has not caught up with the others since it started, or is no member of them: it does not know whose token this is. Ask another node, or this one again; its /readyz says when.").
		after(time.Second).because("catching_up")
}

// problemUpgradeNeeded is of what not all voters are known to apply.
func problemUpgradeNeeded() *Problem {
	return newProblem(codeUpgradeNeeded, "Nothing was changed. Upgrade every node of the control plane: this is possible once all voters can do it. `anabranch controlplane members` lists their versions and levels.").
		after(time.Minute)
}

func problemInternal() *Problem {
	return newProblem(codeInternal, "The node's log says more under this request id.")
}

// problemDocument tells what is wrong with a document: 400 when it can't be read at all, 422 when it
// says something wrong.
func problemDocument(problems []policy.Problem) *Problem {
	code := codeInvalid
	for _, p := range problems {
		if p.Field == "" {
			code = codeMalformed
		}
	}
	detail := fmt.Sprintf("There are %d problems.", len(problems))
	if len(problems) == 1 {
		detail = strings.TrimSpace(problems[0].Field + " " + problems[0].Reason)
	}
	return newProblem(code, detail, problems...)
}

// write answers the problem.
func (p *Problem) write(w http.ResponseWriter) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, p.retryAfter.Round(time.Second)/time.Second))))
	}
	w.WriteHeader(p.Status)
	_, err = w.Write(append(body, '\n'))
	return err
}
