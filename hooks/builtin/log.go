package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
)

// options are those of log.
type options struct {
	level   slog.Level
	message string
}

// defaultMessage is the message of a record whose hook has none.
const defaultMessage = "hook"

func logOptions(with map[string]any) (options, error) {
	o := options{message: defaultMessage}
	for _, name := range slices.Sorted(maps.Keys(with)) {
		text, ok := with[name].(string)
		if !ok {
			return options{}, fmt.Errorf("%s is not text", name)
		}
		switch name {
		case "message":
			o.message = text
		case "level":
			if err := o.level.UnmarshalText([]byte(text)); err != nil {
				return options{}, fmt.Errorf("level %q is not debug, info, warn or error", text)
			}
		default:
			return options{}, fmt.Errorf("unknown option %q: it has level and message", name)
		}
	}
	return o, nil
}

func checkLog(with map[string]any) error {
	_, err := logOptions(with)
	return err
}

// maxLogged bounds the text of an event in a record: a tenant may have written
// it.
const maxLogged = 1 << 10

// callLog writes a record. It does not persist what happened: the activity log
// does, for every event.
func callLog(ctx context.Context, log *slog.Logger, c Call) (Result, error) {
	o, err := logOptions(c.With)
	if err != nil {
		return Result{}, err
	}
	var event struct {
		Type    string `json:"type"`
		Seq     int64  `json:"seq"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(c.Envelope, &event) // without an envelope there is no event
	attrs := []slog.Attr{slog.String("hook", c.Hook), slog.String("run", c.Run)}
	for _, field := range []struct{ name, value string }{
		{"point", string(c.Point)}, {"workload", c.Workload}, {"container", c.Container}, {"claim", c.Claim}, {"tenant", c.Tenant},
		{"event", event.Type}, {"text", event.Message[:min(len(event.Message), maxLogged)]},
	} {
		if field.value != "" {
			attrs = append(attrs, slog.String(field.name, field.value))
		}
	}
	if event.Seq != 0 {
		attrs = append(attrs, slog.Int64("seq", event.Seq))
	}
	log.LogAttrs(ctx, o.level, o.message, attrs...)
	return Result{}, nil
}
