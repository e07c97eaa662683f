package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MemoryLevel is whom a value of memory belongs to.
type MemoryLevel string

// The levels of memory. The empty one is MemoryOfClaim.
const (
	MemoryOfClaim    MemoryLevel = "claim"
	MemoryOfTenant   MemoryLevel = "tenant"   // of the claims of a tenant on a workload
	MemoryOfWorkload MemoryLevel = "workload" // of all claims on a workload that shares it
)

// MemoryItem describes a value of memory.
type MemoryItem struct {
	Key       string      `json:"key"`
	Level     MemoryLevel `json:"level"`
	Version   int64       `json:"version"` // it grows with each put
	Bytes     int64       `json:"bytes"`   // the size of the value
	UpdatedAt time.Time   `json:"updated_at"`
}

// MemoryValue is a value with its description. UpdatedAt is in whole seconds.
type MemoryValue struct {
	MemoryItem
	Value json.RawMessage `json:"value"`
}

// MemoryDeleted is the result of a deletion.
type MemoryDeleted struct {
	Deleted bool `json:"deleted"` // there was a value
}

// MemoryFilter selects keys; empty fields match all.
type MemoryFilter struct {
	Level  MemoryLevel
	Prefix string
	After  string // keys after this one
	Limit  int    // 0: no limit
}

// PutMemory puts a JSON value under a key of a claim's memory. With ifVersion it does
// so only if the value has that version, or, for 0, if there is none; otherwise the
// error has CodeVersionConflict and the CurrentVersion. It is not repeated when the
// connection breaks: another program may have changed the value since.
func (c *Client) PutMemory(ctx context.Context, claim string, level MemoryLevel, key string, value json.RawMessage, ifVersion *int64) (MemoryItem, error) {
	req := changeMemory(http.MethodPut, claim, level, key, ifVersion)
	req.body, req.header = value, http.Header{"Content-Type": {"application/json"}}
	out, _, err := doJSON[MemoryItem](ctx, c, req)
	return out, err
}

// DeleteMemory deletes a value, with ifVersion as PutMemory.
func (c *Client) DeleteMemory(ctx context.Context, claim string, level MemoryLevel, key string, ifVersion *int64) (MemoryDeleted, error) {
	out, _, err := doJSON[MemoryDeleted](ctx, c, changeMemory(http.MethodDelete, claim, level, key, ifVersion))
	return out, err
}

func changeMemory(method, claim string, level MemoryLevel, key string, ifVersion *int64) call {
	q := values("level", string(level))
	if ifVersion != nil {
		q.Set("if_version", strconv.FormatInt(*ifVersion, 10))
	}
	return call{method: method, path: memoryPath(claim, key), query: q, noRetry: true}
}

// memoryPath leaves the slashes of a key, which some proxies do not accept in
// another form.
func memoryPath(claim, key string) string {
	return path(path("/v1/claims", claim)+"/memory", strings.Split(key, "/")...)
}

// GetMemory returns the value under a key of a claim's memory.
func (c *Client) GetMemory(ctx context.Context, claim string, level MemoryLevel, key string) (MemoryValue, error) {
	v := MemoryValue{MemoryItem: MemoryItem{Key: key, Level: level}}
	if level == "" {
		v.Level = MemoryOfClaim
	}
	resp, err := c.do(ctx, call{method: http.MethodGet, path: memoryPath(claim, key), query: values("level", string(level))})
	if err != nil {
		return v, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if v.Value, err = io.ReadAll(resp.Body); err == nil {
		v.Version, err = strconv.ParseInt(strings.Trim(strings.TrimPrefix(resp.Header.Get("ETag"), "W/"), `"`), 10, 64)
	}
	if err == nil {
		v.UpdatedAt, err = http.ParseTime(resp.Header.Get("Last-Modified"))
	}
	if err != nil {
		return v, fmt.Errorf("read the answer of %s: %w", c.name, err)
	}
	v.Bytes = int64(len(v.Value))
	return v, nil
}

// Memory lists the keys of a claim's memory that match, without their values.
func (c *Client) Memory(ctx context.Context, claim string, f MemoryFilter) ([]MemoryItem, error) {
	q := values("level", string(f.Level), "prefix", f.Prefix, "after", f.After)
	return listAll[MemoryItem](ctx, c, path("/v1/claims", claim)+"/memory", q, f.Limit)
}
