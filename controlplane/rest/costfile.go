package rest

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/costmodel/focus"
)

const mediaCSV = "text/csv"

// sendCharges writes rows as a file in the columns of FOCUS.
func (s *Server) sendCharges(c echo.Context, view *state.View, rows []costRow) error {
	w := c.Response()
	w.Header().Set(echo.HeaderContentType, mediaCSV+"; charset=utf-8; header=present")
	w.Header().Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", "anabranch-focus-"+focus.Version+".csv"))
	w.WriteHeader(http.StatusOK)
	if isHead(c) {
		return nil
	}
	out := bufio.NewWriterSize(w, 64<<10)
	file := focus.NewWriter(out, focus.Issuer{Account: view.ClusterID(), AccountName: "Anabranch " + view.ClusterID()})
	err := writeCharges(file, view, rows)
	if err == nil {
		err = file.Flush()
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		s.o.Logger.Info("charges not sent", slog.String("request_id", requestID(c)), slog.Any("err", err))
		panic(http.ErrAbortHandler) // the status is out: a cut connection says that there is more
	}
	return nil
}

// writeCharges writes the charges of rows, each with the labels of its tenant.
func writeCharges(file *focus.Writer, view *state.View, rows []costRow) error {
	for _, r := range rows {
		var tags map[string]string
		if tenant, ok := view.Get(policy.KindTenant, string(r.Key.Tenant)); ok {
			tags = tenant.Metadata.Labels
		}
		for _, charge := range chargesOf(r) {
			charge.Tags = tags
			if err := file.Write(charge); err != nil {
				return fmt.Errorf("charge of %s: %w", r.Start.UTC(), err)
			}
		}
	}
	return nil
}

// chargesOf are the charges of a row: one for each of what it paid for.
func chargesOf(r costRow) (all []focus.Charge) {
	base := focus.Charge{From: r.Start, Until: r.Until, Key: r.Key, Estimate: r.Estimate, Unpriced: r.Unpriced}
	work, idle, sent := base, base, base
	work.Kind, work.Cost, work.Usage = focus.Inference, r.Cost, r.Usage
	idle.Kind, idle.Cost = focus.Idle, r.Idle
	sent.Kind, sent.Cost, sent.Bytes = focus.Transfer, r.Egress, r.Bytes
	if work.Cost != 0 || work.Usage.Tokens() > 0 || work.Usage.Answers() > 0 {
		all = append(all, work)
	}
	if sent.Cost != 0 || sent.Bytes > 0 {
		all = append(all, sent)
	}
	if idle.Cost != 0 || len(all) == 0 && (r.Carbon != 0 || r.Unpriced) {
		all = append(all, idle)
	}
	if len(all) > 0 {
		all[0].Carbon = r.Carbon
	}
	return all
}
