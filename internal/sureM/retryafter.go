package surem

import (
	"net/http"
	"strings"
	"time"
)

// maxRetryAfter is what a longer Retry-After counts as.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header (RFC 9110 §10.2.3), seconds or a date: 0 when there
// is none, when it cannot be read and when it has passed, at most maxRetryAfter. A date is
// counted from the answer's own Date, as SureM's clock need not be ours.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds := time.Duration(0)
		for _, digit := range value {
			seconds = min(seconds*10+time.Duration(digit-'0'), maxRetryAfter/time.Second)
		}
		return seconds * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now := time.Now()
	if said, err := http.ParseTime(h.Get("Date")); err == nil {
		now = said
	}
	return max(0, min(at.Sub(now), maxRetryAfter))
}
