package request

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// keyPrefix is the prefix of a secret whose rest is a key in base64.
const keyPrefix = "whsec_"

// sign adds the signature of Standard Webhooks to a message: id is the same at
// every attempt, now is the time of the attempt. A secret that begins with
// whsec_ has its key in base64; another one is the key.
func (m *message) sign(secret, id string, now time.Time) error {
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, keyPrefix); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return errors.New("what follows whsec_ is not base64")
		}
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, m.body)
	m.header.Set("Webhook-Id", id)
	m.header.Set("Webhook-Timestamp", timestamp)
	m.header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}
