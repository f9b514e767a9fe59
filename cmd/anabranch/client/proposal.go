package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"anabranch/controlplane/policy"
)

// Proposal is a change that others have to approve, as the server tells it.
type Proposal struct {
	ID              string          `json:"id"`
	State           string          `json:"state"`
	Action          string          `json:"action"`
	Kind            policy.Kind     `json:"kind"`
	Name            string          `json:"name"`
	Proposer        Person          `json:"proposer"`
	Reason          string          `json:"reason"`
	CreatedAt       time.Time       `json:"createdAt"`
	ExpiresAt       time.Time       `json:"expiresAt"`
	BaseRevision    uint64          `json:"baseRevision"`
	SHA256          string          `json:"sha256"`
	ApprovalsNeeded int             `json:"approvalsNeeded"`
	Approvals       []Approval      `json:"approvals"`
	EndedAt         time.Time       `json:"endedAt"`
	EndedBy         string          `json:"endedBy"`
	EndReason       string          `json:"endReason"`
	AppliedRevision uint64          `json:"appliedRevision"`
	Diff            []policy.Change `json:"diff"`
	// Lint and Simulation are told of a pending one to whoever asks for them.
	Lint       []policy.Warning `json:"lint,omitempty"`
	Simulation *Simulation      `json:"simulation,omitempty"`
}

// Person is somebody who proposes or approves.
type Person struct {
	Name string `json:"name"`
	Role string `json:"role"`
}

// Approval is one person's word.
type Approval struct {
	Person
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// The states of a proposal that programs ask for.
const (
	Pending = "pending"
	Applied = "applied"
)

// Approvers names who has approved it.
func (p *Proposal) Approvers() []string {
	var names []string
	for _, w := range p.Approvals {
		names = append(names, w.Name)
	}
	return names
}

// Outcome says what has become of it, for people.
func (p *Proposal) Outcome() string {
	text := p.State
	switch {
	case p.State == Applied:
		return fmt.Sprintf("applied as revision %d, approved by %s", p.AppliedRevision, strings.Join(p.Approvers(), ", "))
	case p.EndedBy != "" && p.State != "expired":
		text += " by " + p.EndedBy
	}
	if p.EndReason != "" {
		text += ": " + p.EndReason
	}
	return text
}

// ProposedError says that a change is not made: it has become a proposal, which others have to approve. It
// is the way things go, and a failure only to those who need the change made.
type ProposedError struct{ Proposal }

// Error names the proposal.
func (e *ProposedError) Error() string {
	return fmt.Sprintf("the change waits as proposal %s until others approve it", e.ID)
}

// ProposedIn says whether an answer is a proposal instead of a change that was made: a *[ProposedError], or
// nil.
func ProposedIn(a *Answer) error {
	if a == nil || a.Status != http.StatusAccepted {
		return nil
	}
	var e ProposedError
	if err := json.Unmarshal(a.Body, &e.Proposal); err != nil {
		return fmt.Errorf("read the proposal that the change has become: %w", err)
	}
	return &e
}

// write makes a call that changes a resource.
func (c *Client) write(ctx context.Context, call Call) (*Answer, error) {
	a, err := c.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	return a, ProposedIn(a)
}

// Proposal reads one.
func (c *Client) Proposal(ctx context.Context, id string) (*Proposal, error) {
	var p Proposal
	if err := c.JSON(ctx, proposalPath(id), nil, &p); err != nil {
		return nil, err
	}
	return &p, nil
}

func proposalPath(id string) string { return "/v1/proposals/" + url.PathEscape(id) }

// Proposals reads the proposals that a query asks for, newest first, page after page.
func (c *Client) Proposals(ctx context.Context, query url.Values) ([]Proposal, error) {
	return All[Proposal](ctx, c, "/v1/proposals", query)
}

func cloned(q url.Values) url.Values {
	out := url.Values{}
	for name, values := range q {
		out[name] = slices.Clone(values)
	}
	return out
}

// Approve approves a proposal as it was seen, Reject rejects it, and Withdraw takes one's own back. Each
// gives the proposal as it is then.
func (c *Client) Approve(ctx context.Context, id, sha256 string) (*Proposal, error) {
	body, err := json.Marshal(map[string]string{"sha256": sha256})
	if err != nil {
		return nil, err
	}
	call := Call{Method: http.MethodPost, Path: proposalPath(id) + "/approve", Body: body}
	if c.LargeChange {
		call.Query = url.Values{"allow_large_change": {"true"}}
	}
	return c.decide(ctx, call)
}

// Reject rejects a proposal; it needs a Reason. See [Client.Approve].
func (c *Client) Reject(ctx context.Context, id string) (*Proposal, error) {
	return c.decide(ctx, Call{Method: http.MethodPost, Path: proposalPath(id) + "/reject"})
}

// Withdraw takes one's own proposal back. See [Client.Approve].
func (c *Client) Withdraw(ctx context.Context, id string) (*Proposal, error) {
	return c.decide(ctx, Call{Method: http.MethodDelete, Path: proposalPath(id)})
}

func (c *Client) decide(ctx context.Context, call Call) (*Proposal, error) {
	a, err := c.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	var p Proposal
	if err := json.Unmarshal(a.Body, &p); err != nil {
		return nil, fmt.Errorf("read answer to %s %s: %w", call.Method, call.Path, err)
	}
	return &p, nil
}

// DecisionPoll bounds the time between two looks of [Client.Decided].
const DecisionPoll = 2 * time.Second

// Decided waits until a proposal is not pending any more.
func (c *Client) Decided(ctx context.Context, id string) (*Proposal, error) {
	for wait := DecisionPoll / 32; ; wait = min(2*wait, DecisionPoll) {
		p, err := c.Proposal(ctx, id)
		if err != nil || p.State != Pending {
			return p, err
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-t.C:
		}
	}
}
