package surem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/templates"
)

// success is the one code that means success.
const success = "A0000"

// envelope is the {code, message, data} that every answer of SureM comes in.
type envelope struct {
	code    string // of a number as it is written
	message string // "" when it is no string
	data    gjson.Result
}

var (
	errEmpty    = errors.New("the answer is empty")
	errNotJSON  = errors.New("the answer is not JSON")
	errNotTaken = errors.New("the answer is JSON without SureM's envelope")
)

func readEnvelope(body string) (envelope, error) {
	switch {
	case strings.TrimSpace(body) == "":
		return envelope{}, errEmpty
	case !templates.ValidJSON(body):
		return envelope{}, errNotJSON
	}
	top := gjson.Parse(body)
	code, codes := templates.Member(top, "code")
	data, datas := templates.Member(top, "data")
	switch {
	case codes == 0 || code.Type == gjson.Null:
		return envelope{}, errNotTaken
	case codes > 1 || datas > 1:
		return envelope{}, errors.New("the answer's envelope says code or data twice")
	}
	e := envelope{data: data}
	switch code.Type {
	case gjson.String:
		e.code = code.Str
	case gjson.Number:
		e.code = code.Raw
	default:
		return envelope{}, errors.New("the answer's code is neither a string nor a number")
	}
	if message, n := templates.Member(top, "message"); n == 1 && message.Type == gjson.String {
		e.message = message.Str
	}
	return e, nil
}

// judge tells a success from everything else, in the order HTTP status, JSON, code, data,
// and hands the data to the request's reader. unread says why there is no body, if so.
func (c *Client) judge(a *account, r *request, status int, header http.Header, body string, unread error) *Error {
	env, bad := envelope{}, unread
	if bad == nil {
		env, bad = readEnvelope(body)
	}
	if errors.Is(bad, errNotJSON) {
		c.logStrange(a, r, status, body)
	}
	is := func(outcome string, why error) *Error {
		return &Error{
			Op: r.op, Outcome: outcome, Status: status, Err: why,
			Code:    cut(c.mask(a, r, env.code), 32),
			Message: cut(c.mask(a, r, env.message), 100),
		}
	}
	pause := func(e *Error) *Error {
		e.RetryAfter = retryAfter(header)
		return e
	}
	switch {
	case status == http.StatusTooManyRequests:
		return pause(is(outcomeLimited, errors.New("too many calls for SureM")))
	case status >= 500:
		return pause(is(outcomeServer, errors.New("SureM is in trouble")))
	case status < 200 || status >= 300 && status < 400:
		return is(outcomeBad, errors.New("redirects are not followed; is SUREM_BASE_URL right?"))
	case status == http.StatusForbidden:
		return is(outcomeRefused, fmt.Errorf("%w: wrong secret, or this machine's IP is not on SureM's allow-list", ErrRefused))
	case status == http.StatusUnauthorized, bad == nil && c.relogin[env.code]:
		return is(outcomeRefused, fmt.Errorf("%w: the %s is not accepted", ErrRefused, r.credential()))
	case r.op == opDetail && bad == nil && env.code != success && c.notFound[env.code],
		r.op == opDetail && bad == nil && status == http.StatusNotFound:
		return is(outcomeNotFound, ErrNotFound)
	case status == http.StatusNotFound && bad != nil:
		return is(outcomeClient, errors.New("no such path there, as there is no envelope of SureM's; are SUREM_BASE_URL and the SUREM_*_PATHs right?"))
	case r.op == opLogin && bad == nil && env.code != success:
		return is(outcomeRefused, fmt.Errorf("%w: the login is not accepted", ErrRefused))
	case status >= 400:
		return is(outcomeClient, errors.New("SureM does not take the call"))
	case bad != nil:
		return is(outcomeBad, bad)
	case env.code != success:
		return is(outcomeClient, errors.New("SureM reports an error"))
	}
	if err := r.read(env.data); err != nil {
		return is(outcomeBad, err)
	}
	return nil
}

// logStrange shows the beginning of a body that does not begin as JSON. One that does is
// never shown, as a detail that was cut off is template text; nor is what a login was
// answered with as a success, as that may be a token.
func (c *Client) logStrange(a *account, r *request, status int, body string) {
	begin := strings.TrimLeftFunc(body, func(r rune) bool { return r <= ' ' || r > '~' })
	if begin == "" || strings.IndexByte(`{["`, begin[0]) >= 0 || r.op == opLogin && status < 300 {
		return
	}
	if c.strange.isNews(fmt.Sprint(r.op, status)) { // whatever the text: it may hold a time, and be another each time
		shown := cut(c.mask(a, r, cut(body, 64<<10)), 200)
		c.log.Warn().Str("operation", r.op).Int("status", status).Str("body", fmt.Sprintf("%q", shown)).Msg("surem strange answer")
	}
}

// readBool reads a boolean in any of the spellings SureM and its sisters use: true, false,
// "true", "false", "Y", "N", 1, 0. known is false for anything else.
func readBool(v gjson.Result) (value, known bool) {
	switch strings.ToLower(strings.TrimSpace(v.String())) {
	case "true", "y", "1":
		return true, true
	case "false", "n", "0":
		return false, true
	}
	return false, false
}
