package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/redisconn"
	surem "alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// parsers make the fields that go-envconfig has no type for out of their text. Their errors
// say what is allowed and never quote a secret. A nil one is made later, out of more than
// one variable.
var parsers = map[string]func(text string) (any, error){
	"SUREM_BASE_URL":        parseBaseURL,
	"SUREM_USER_CODE":       func(s string) (any, error) { return s, checkText(s) },
	"SUREM_SECRET_KEY":      func(s string) (any, error) { return hospitals.Secret(s), checkText(s) },
	"SUREM_TOKEN_PATH":      parseTokenPath,
	"SUREM_SUMMARY_PATH":    parsePath([]string{"senderKey"}, []string{"senderKey", "page", "size"}),
	"SUREM_DETAIL_PATH":     parsePath([]string{"templateCode", "senderKey"}, []string{"templateCode", "senderKey"}),
	"SUREM_RATE_LIMIT":      parseRate,
	"SUREM_RELOGIN_CODES":   parseCodes,
	"SUREM_NOT_FOUND_CODES": parseCodes,
	"REDIS_URL":             nil,
	"REDIS_MODE":            parseRedisMode,
	"CACHE_KEY_FORMAT":      func(s string) (any, error) { return templates.ParseKeyFormat(s) },
	"CACHE_VALUE_FORMAT":    oneOf("document", "keyv"),
	"HOSPITALS":             nil,
	"SYNC_SCHEDULE":         nil,
	"SYNC_TIMEZONE":         parseTimezone,
	"SYNC_SKIP_STATUSES":    parseStatuses,
	"SYNC_COMPARE_ALSO":     func(s string) (any, error) { return words(s) },
	"SYNC_HEARTBEAT_URL":    parseHeartbeat,
	"HTTP_ADDR":             parseListenAddress,
	"DEBUG_ADDR":            parseDebugAddress,
	"API_TOKENS":            parseTokens,
	"LOG_LEVEL":             parseLogLevel,
	"LOG_FORMAT":            oneOf("json", "console"),
}

func oneOf(allowed ...string) func(string) (any, error) {
	return func(s string) (any, error) {
		if !slices.Contains(allowed, s) {
			return nil, errors.New("must be one of " + strings.Join(allowed, ", "))
		}
		return s, nil
	}
}

// checkText refuses what no user code or secret has.
func checkText(s string) error {
	if why := hospitals.WrongText(s); why != "" {
		return errors.New(why)
	}
	return nil
}

// words splits a comma separated list and drops the blanks around each word. No word is
// empty or comes twice.
func words(s string) ([]string, error) {
	var list []string
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
			return nil, fmt.Errorf("must be a comma separated list; word %d is empty", len(list)+1)
		case hospitals.WrongText(word) != "":
			return nil, fmt.Errorf("must be a comma separated list; word %d %s", len(list)+1, hospitals.WrongText(word))
		case slices.Contains(list, word):
			return nil, fmt.Errorf("must hold every word once; word %d came before", len(list)+1)
		}
		list = append(list, word)
	}
	return list, nil
}

func parseBaseURL(s string) (any, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validPort(u.Port()) ||
		u.User != nil || strings.ContainsAny(s, "?#") {
		return nil, errors.New("must be an absolute http or https URL without user-info, query or fragment")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// validPort reports whether a URL's port is one; "" is the scheme's own.
func validPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && port[0] != '0'
}

func parseTokenPath(s string) (any, error) {
	if strings.ContainsAny(s, "?{") {
		return nil, errors.New("must be a path without query and variables")
	}
	path, err := surem.ParsePath(s, nil, nil)
	return path.String(), err
}

func parsePath(required, allowed []string) func(string) (any, error) {
	return func(s string) (any, error) { return surem.ParsePath(s, required, allowed) }
}

// plainNumber is how numbers with a fraction are written: no 05, no 1e3, no NaN.
var plainNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

func parseRate(s string) (any, error) {
	rate, err := strconv.ParseFloat(s, 64)
	if err != nil || !plainNumber.MatchString(s) || rate <= 0 || rate > 10_000 {
		return nil, errors.New("must be a number above 0, at most 10000, such as 5 or 0.5")
	}
	return rate, nil
}

func parseCodes(s string) (any, error) {
	codes, err := words(s)
	if err == nil && slices.Contains(codes, "A0000") {
		err = errors.New("must not hold A0000, which means success")
	}
	return codes, err
}

func parseRedisMode(s string) (any, error) {
	mode, err := oneOf(string(redisconn.Single), string(redisconn.Sentinel), string(redisconn.Cluster))(s)
	return mode, err
}

func parseTimezone(s string) (any, error) {
	zone, err := time.LoadLocation(s)
	if err != nil || zone == time.Local {
		return nil, errors.New("must be a time zone of the IANA database, such as Asia/Seoul or UTC")
	}
	return zone, nil
}

func parseStatuses(s string) (any, error) {
	skip := []templates.State{}
	if strings.TrimSpace(s) == "none" {
		return skip, nil
	}
	list, err := words(s)
	if err != nil {
		return nil, err
	}
	for i, word := range list {
		state, ok := templates.KnownState(word)
		if !ok {
			return nil, fmt.Errorf("must be none, or a list of REGISTERED, REQUESTED, APPROVED, REJECTED, DELETED; word %d is not one of them", i+1)
		}
		if !slices.Contains(skip, state) {
			skip = append(skip, state)
		}
	}
	return skip, nil
}

// hostName is what may stand before the port beside an IP address.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

func parseListenAddress(s string) (any, error) {
	host, port, err := net.SplitHostPort(s)
	_, hostErr := netip.ParseAddr(host)
	if err != nil || host != "" && hostErr != nil && !hostName.MatchString(host) || port != "0" && (port == "" || !validPort(port)) {
		return nil, errors.New("must be host:port or :port, the port from 0 to 65535")
	}
	return s, nil
}

func parseDebugAddress(s string) (any, error) {
	if _, err := parseListenAddress(s); err != nil {
		return nil, err
	}
	if host, _, _ := net.SplitHostPort(s); !loopback(host) {
		return nil, errors.New("must be loopback (127.0.0.0/8, ::1, localhost)")
	}
	return s, nil
}

// parseHeartbeat never quotes the URL: who has it can ring, or keep from ringing.
func parseHeartbeat(s string) (any, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validPort(u.Port()) ||
		u.User != nil || strings.Contains(s, "#") {
		return nil, errors.New("must be an absolute http or https URL without user-info or fragment")
	}
	return hospitals.Secret(s), nil
}

// parseTokens takes what an Authorization header can carry. Faults name tokens by place.
func parseTokens(s string) (any, error) {
	var tokens []hospitals.Secret
	for token := range strings.SplitSeq(s, ",") {
		token = strings.TrimSpace(token)
		place := len(tokens) + 1
		switch {
		case token == "":
			return nil, fmt.Errorf("must be a comma separated list; token %d is empty", place)
		case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("must hold visible ASCII characters only; token %d holds another", place)
		case slices.Contains(tokens, hospitals.Secret(token)):
			return nil, fmt.Errorf("must hold every token once; token %d came before", place)
		}
		tokens = append(tokens, hospitals.Secret(token))
	}
	return tokens, nil
}

func parseLogLevel(s string) (any, error) {
	if _, err := oneOf("trace", "debug", "info", "warn", "error")(s); err != nil {
		return nil, err
	}
	return zerolog.ParseLevel(s)
}
