package focus

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"anabranch/costmodel"
)

// Writer writes charges as CSV (RFC 4180), in UTF-8, with a line of column names first. A null is nothing between
// two commas. It is not for use by several goroutines at a time.
type Writer struct {
	csv    *csv.Writer
	issuer Issuer
	row    []string
	begun  bool
}

// NewWriter writes to w what an issuer charges.
func NewWriter(w io.Writer, issuer Issuer) *Writer {
	return &Writer{csv: csv.NewWriter(w), issuer: issuer, row: make([]string, len(columns))}
}

// Write adds a row. Its error is of the charge, of which nothing is written then, or of the writer below.
func (w *Writer) Write(c Charge) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return err
	}
	for i, column := range columns {
		w.row[i] = column.value(w, c)
	}
	return w.csv.Write(w.row)
}

// Flush hands on what was written, the names of columns even where no row was.
func (w *Writer) Flush() error {
	if err := w.begin(); err != nil {
		return err
	}
	w.csv.Flush()
	return w.csv.Error()
}

func (w *Writer) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	for i, column := range columns {
		w.row[i] = column.name
	}
	return w.csv.Write(w.row)
}

// check says why a charge can be no row.
func (c Charge) check() error {
	_, end := month(c.From)
	switch {
	case services[c.Kind].name == "":
		return fmt.Errorf("charge of kind %q: there is no such kind", c.Kind)
	case c.Until.Sub(c.From) < time.Second:
		return fmt.Errorf("charge from %s until %s: it takes less than a second", moment(c.From), moment(c.Until))
	case c.Until.After(end):
		return fmt.Errorf("charge from %s until %s: it goes on into the next month", moment(c.From), moment(c.Until))
	}
	return nil
}

// text is a value as spreadsheets may open it: they take what begins with one of these for a formula, which an
// apostrophe before it prevents, see https://owasp.org/www-community/attacks/CSV_Injection.
func text(value string) string {
	if value != "" && strings.ContainsRune("=+-@\t\r\n", rune(value[0])) {
		return "'" + value
	}
	return value
}

// usd is an amount as the specification writes numbers: no sign of a currency, no exponent, as many decimals
// as are needed.
func usd(m costmodel.Micros) string {
	if m < 0 {
		return "-" + decimal(-uint64(m), 6)
	}
	return decimal(uint64(m), 6)
}

// decimal is a number of units that are 10 to the minus decimals, without zeros at its end.
func decimal(units uint64, decimals int) string {
	digits := strconv.FormatUint(units, 10)
	if decimals == 0 {
		return digits
	}
	if short := decimals + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	whole, rest := digits[:len(digits)-decimals], strings.TrimRight(digits[len(digits)-decimals:], "0")
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}
