package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// refuseRepeated refuses a parameter of a query that is given twice and is no list:
// huma takes the first one, and what checks requests before may take the last.
func (a *API) refuseRepeated(ctx huma.Context, next func(huma.Context)) {
	at := ctx.URL()
	query := at.Query()
	for _, p := range ctx.Operation().Parameters {
		if p.In == "query" && p.Schema.Type != huma.TypeArray && len(query[p.Name]) > 1 {
			problem := newProblem(ctx.Context(), InvalidRequest, "query."+p.Name+": is given more than once")
			problem.Status = http.StatusBadRequest
			_, w := humago.Unwrap(ctx)
			problem.write(w)
			return
		}
	}
	next(ctx)
}
