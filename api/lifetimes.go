package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/claim"
)

// ExtendRequest moves the end of a claim's lifetime.
type ExtendRequest struct {
	By Duration `json:"by" required:"true" doc:"By how long: 1s to 720h. The claim then ends at most 720h from now."`
}

type extendIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Body ExtendRequest
}

func (a *API) extend(ctx context.Context, in *extendIn) (*struct{ Body claim.Claim }, error) {
	c, err := a.o.Claimer.Extend(ctx, in.ID, in.Body.By.Duration)
	if err != nil {
		return nil, ofBody(err)
	}
	return &struct{ Body claim.Claim }{a.viewClaim(ctx, c)}, nil
}

// ofBody returns the error of a request with the place of the field in the body.
func ofBody(err error) error {
	if invalid, ok := errors.AsType[*claim.RequestError](err); ok {
		return invalidf("body.%s", invalid)
	}
	if other, ok := errors.AsType[*claim.OtherParameterError](err); ok {
		return fmt.Errorf("body.%w", other)
	}
	return err
}

// labelsOf parses a filter of labels.
func labelsOf(given []string) (map[string]string, error) {
	var all map[string]string
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if before, twice := all[name]; !ok || twice && before != value {
			return nil, invalidf("query.label: %.200q is not NAME=VALUE, or has a second value of the label", text)
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	}
	if err := claim.CheckLabels(all); err != nil {
		return nil, invalidf("query.%w", err)
	}
	return all, nil
}

// maxDuration is the longest duration that is a number of milliseconds.
const maxDuration = 366 * 24 * time.Hour
