// Package fault says what went wrong with a call to AWS in words that anybody may read: what is told of a source of
// prices is shown to all who may read, and kept in logs. What AWS's client says has names of accounts, roles and
// machines in it, and numbers of requests, which make each failure another one.
package fault

import "regexp"

// Plain is an error without names of accounts, roles and keys, and without numbers of requests. What it wraps is found
// as before. Nil stays nil.
func Plain(err error) error {
	if err == nil {
		return nil
	}
	return plain{err}
}

type plain struct{ error }

// Error is what the error says, without what is nobody's business.
func (p plain) Error() string { return Text(p.error.Error()) }

// Unwrap gives the error itself.
func (p plain) Unwrap() error { return p.error }

var hidden = []struct {
	what *regexp.Regexp
	by   string
}{
	// As smithy's and the SDK's HTTP errors write them.
	{regexp.MustCompile(`(?i),? ?\b(request ?id|host ?id): ?[^,;\s]*`), ""},
	{regexp.MustCompile(`(?i)encoded authorization failure message: ?\S+`), "(more is encoded)"},
	{regexp.MustCompile(`arn:aws[\w-]*:[^\s"',;)]+`), "(name)"},
	// Ids of access keys and of identities, see
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids
	{regexp.MustCompile(`\bA[A-Z]{2}A[A-Z0-9]{12,}\b`), "(id)"},
	{regexp.MustCompile(`\b[0-9]{12}\b`), "(account)"},
	{regexp.MustCompile(`\bi-[0-9a-f]{8,17}\b`), "(instance)"},
}

// Text is what Plain makes of the words of an error.
func Text(words string) string {
	for _, h := range hidden {
		words = h.what.ReplaceAllString(words, h.by)
	}
	return words
}
