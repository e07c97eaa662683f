package api

import (
	"context"

	"github.com/hostler/hostler/doctor"
)

// Doctor looks the installation over.
type Doctor interface {
	Examine(ctx context.Context) doctor.Report
}

// examine answers 200 whatever is found: the examination has succeeded.
func (a *API) examine(ctx context.Context, _ *struct{}) (*struct{ Body doctor.Report }, error) {
	return &struct{ Body doctor.Report }{a.o.Doctor.Examine(ctx)}, nil
}
