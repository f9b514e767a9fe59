package rest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/state"
)

// view gives the state that a read answers from. Strong (the default) holds everything that was
// committed before the request; stale is what this node has, with its age in X-Staleness-Ms.
func (s *Server) view(c echo.Context) (*state.View, error) {
	switch wanted := c.QueryParam("consistency"); wanted {
	case "", "strong":
		if err := s.barrier(c.Request().Context()); err != nil {
			return nil, err
		}
		c.Response().Header().Set(headerStaleness, "0")
		return s.o.View(), nil
	case "stale":
		s.setStaleness(c)
		return s.o.View(), nil
	default:
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("consistency is %.40q; use strong or stale.", wanted))
	}
}

// localView is for what is local by nature, such as the fleet's signals.
func (s *Server) localView(c echo.Context) *state.View {
	s.setStaleness(c)
	return s.o.View()
}

func (s *Server) setStaleness(c echo.Context) {
	if s.o.Staleness == nil {
		return
	}
	if age := s.o.Staleness(); age >= 0 {
		c.Response().Header().Set(headerStaleness, strconv.FormatInt(age.Milliseconds(), 10))
	}
}

func (s *Server) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, BarrierTimeout)
	defer cancel()
	if err := s.o.ReadBarrier(ctx); err != nil {
		return fmt.Errorf("strong read: %w", err)
	}
	return nil
}
