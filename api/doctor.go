package api

import (
	"context"

	"github.com/hostler/hostler/doctor"
)

// Doctor diagnoses the installation.
type Doctor interface {
	Examine(ctx context.Context) doctor.Report
}

// examine returns 200 whatever the findings, because the examination has
// succeeded.
func (a *API) examine(ctx context.Context, _ *struct{}) (*struct{ Body doctor.Report }, error) {
	return &struct{ Body doctor.Report }{viewOf(ctx).report(a.o.Doctor.Examine(ctx))}, nil
}
