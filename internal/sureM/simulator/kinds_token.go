package simulator

import (
	"encoding/json"
	"net/http"
	"time"
)

var loginKinds = []Kind{
	{"login-refused-code", "A1002 under HTTP 200 instead of a token", onlyLogin, envelope(http.StatusOK, "A1002")},
	{"token-missing", "a success without a token", onlyLogin, editData(func(m map[string]any) { delete(m, "accessToken") })},
	{"token-empty", "the token is an empty string", onlyLogin, editData(func(m map[string]any) { m["accessToken"] = "" })},
	{"token-number", "the token is a number", onlyLogin, editData(func(m map[string]any) { m["accessToken"] = 12345 })},
	{"expires-string", "expiresIn, right, in a string", onlyLogin, editData(func(m map[string]any) { m["expiresIn"] = string(encode(m["expiresIn"])) })},
	{"expires-zero", "expiresIn is 0; the token lives on", onlyLogin, expiresIn("0")},
	{"expires-negative", "expiresIn is -1; the token lives on", onlyLogin, expiresIn("-1")},
	{"expires-word", "expiresIn is a word", onlyLogin, expiresIn(`"hour"`)},
	{"expires-null", "expiresIn is null", onlyLogin, expiresIn("null")},
	{"expires-missing", "no expiresIn", onlyLogin, editData(func(m map[string]any) { delete(m, "expiresIn") })},
	{"expires-huge", "expiresIn is 1e18", onlyLogin, expiresIn("1e18")},
	{"expires-tiny", "expiresIn is 1, and the token ends then", onlyLogin, func(a *answer) {
		expiresIn("1")(a)
		a.token.expires = time.Now().Add(time.Second)
	}},
	{"token-one-call", "the token is good for one call, whatever expiresIn says", onlyLogin, func(a *answer) { a.token.uses = 1 }},
	{"token-dead", "the token has ended before its first call", onlyLogin, func(a *answer) { a.token.expires = time.Time{} }},
	{"token-ends-others", "the login ends the account's earlier tokens", onlyLogin, func(a *answer) { a.endOthers() }},
}

var tokenKinds = []Kind{
	{"refused-401", "the token is refused by 401, though it is good", readings, envelope(http.StatusUnauthorized, "A1001")},
	{"refused-401-html", "the token is refused by 401 with a web page, though it is good", readings, page(http.StatusUnauthorized, "<html><body>Unauthorized</body></html>")},
	{"refused-403", "the token is refused by 403, though it is good", readings, envelope(http.StatusForbidden, "A1001")},
	{"refused-code", "the token is refused by A1006 under HTTP 200, though it is good", readings, envelope(http.StatusOK, "A1006")},
}

func expiresIn(value string) func(*answer) {
	return editData(func(m map[string]any) { m["expiresIn"] = json.RawMessage(value) })
}
