package invalidate_test

// expected is what a pass must make of a kind of answer: on every page, on the second, only
// once, and to every login; and what a read must make of it. What a kind cannot befall is
// left out.
type expected struct {
	every, second, once, login seen
	read                       string // a part of the error; "" = every's
}

var (
	healthy   = seen{deleted: "T2 T5 T6", complete: true, calls: 2, logins: 1}
	nothing   = seen{complete: true, calls: 1, logins: 1}
	unread    = seen{calls: 1, logins: 1}
	firstPage = seen{deleted: "T2", calls: 2, logins: 1}
)

func (s seen) calling(n int) seen         { s.calls = n; return s }
func (s seen) logging(in int) seen        { s.logins = in; return s }
func (s seen) failing(err string) seen    { s.err, s.complete = err, false; return s }
func (s seen) missing(rows int) seen      { s.bad = rows; return s }
func (s seen) deleting(codes string) seen { s.deleted = codes; return s }

// harmless is read as if nothing were wrong.
func harmless() expected {
	return expected{every: healthy, second: healthy, once: healthy, login: healthy}
}

// lasting is a failure that is not tried again.
func lasting(err string) expected {
	failed := unread.failing(err)
	return expected{every: failed, second: firstPage.failing(err), once: failed, login: failed.calling(0)}
}

// passing is a failure that is tried once more.
func passing(err string) expected {
	e := lasting(err)
	e.every.calls, e.second.calls, e.login.logins = 2, 3, 2
	e.once = healthy.calling(3)
	return e
}

// refused is a failure that leads to a new login, once.
func refused(err string) expected {
	e := passing(err)
	e.every.logins, e.second.logins, e.once.logins, e.login.logins = 2, 2, 2, 1
	return e
}

// resent is passing, the first call sent again by net/http too: its connection was used before.
func resent(err string) expected {
	e := passing(err)
	e.every.calls, e.second.calls = 3, 4
	return e
}

// shown is a body that stands in the log.
func (e expected) shown() expected {
	e.every.strange, e.second.strange, e.once.strange, e.login.strange = true, true, true, true
	return e
}

// hidden is shown, but not when it is a login's success, which may be a token.
func (e expected) hidden() expected { e.login.strange = false; return e }

// toLogins says what a login fails with, when it is something else.
func (e expected) toLogins(err string) expected { e.login.err = err; return e }

// toReads likewise.
func (e expected) toReads(err string) expected { e.read = err; return e }

const (
	notAList    = "neither data nor data.list is a list"
	notAccepted = "the login is not accepted"
	noObject    = "data is no object"
	noToken     = "has no accessToken"
	notAsked    = "templateCode is not the one asked for"
	noEnvelope  = "without SureM's envelope"
	reports     = "SureM reports an error"
	tooMany     = "too many calls for SureM"
	inTrouble   = "SureM is in trouble"
	notJSON     = "the answer is not JSON"
	tooLarge    = "larger than 8 MiB"
	page2Empty  = "page 2 is empty, though SureM says there is more"
	page3Empty  = "page 3 is empty, though SureM says there is more"
)

// aDay is a failure that asks to wait longer than a pass has.
func aDay(err string) expected { return lasting(err) }

// badRow is one bad row on each page: T1's and T5's.
var badRow = expected{
	every:  healthy.deleting("T2 T6").missing(2),
	second: healthy.deleting("T2 T6").missing(1),
	once:   healthy.missing(1),
}

// badRows are all of a page's.
var badRows = expected{
	every:  healthy.deleting("").missing(7),
	second: healthy.deleting("T2").missing(3),
	once:   healthy.deleting("T5 T6").missing(4),
}

var wanted = map[string]expected{
	"status-400":         lasting("SureM does not take the call").toLogins(notAccepted),
	"status-403-html":    refused("this machine's IP").shown(),
	"status-403-empty":   refused("this machine's IP"),
	"status-404-html":    lasting("no such path there").shown(),
	"status-500":         passing(inTrouble),
	"status-500-success": passing(inTrouble),
	"status-502-html":    passing(inTrouble).shown(),
	"status-204":         lasting("the answer is empty"),
	"redirect-302":       lasting("redirects are not followed"),
	"redirect-307":       lasting("redirects are not followed"),

	"limit-seconds":  passing(tooMany),
	"limit-date":     passing(tooMany),
	"limit-day":      aDay(tooMany),
	"limit-bare":     passing(tooMany),
	"limit-nonsense": passing(tooMany),
	"limit-negative": passing(tooMany),
	"busy-seconds":   passing(inTrouble),
	"busy-date":      passing(inTrouble),
	"busy-day":       aDay(inTrouble),
	"busy-bare":      passing(inTrouble),

	"empty":       lasting("the answer is empty"),
	"html":        lasting(notJSON).shown().hidden(),
	"null":        lasting(noEnvelope),
	"truncated":   lasting(notJSON),
	"trailing":    lasting(notJSON),
	"bom":         lasting(notJSON),
	"euc-kr":      lasting(reports).toLogins(notAccepted),
	"oversized":   lasting(tooLarge),
	"gzip":        harmless(),
	"gzip-broken": passing("gzip"),
	"gzip-bomb":   lasting(tooLarge),
	"html-type":   harmless(),

	"slow":            harmless(),
	"silent":          passing("no whole answer within"),
	"hang-up":         resent("EOF"),
	"reset":           resent("reset"),
	"not-http":        passing("malformed HTTP"),
	"closed-half-way": passing("unexpected EOF"),
	"length-short":    lasting(notJSON),
	"length-long":     passing("unexpected EOF"),
	"dripping":        passing("no whole answer within"),
	"endless-body":    lasting(tooLarge),

	"error-code":        lasting(reports).toLogins(notAccepted),
	"code-missing":      lasting(noEnvelope),
	"code-null":         lasting(noEnvelope),
	"code-number":       lasting(reports).toLogins(notAccepted),
	"code-case":         lasting(reports).toLogins(notAccepted),
	"code-object":       lasting("neither a string nor a number"),
	"envelope-array":    lasting(noEnvelope),
	"envelope-missing":  lasting(noEnvelope),
	"data-missing":      lasting(notAList).toLogins(noObject).toReads(noObject),
	"data-null":         lasting(notAList).toLogins(noObject).toReads(noObject),
	"data-object":       lasting(notAList).toLogins(noToken).toReads(notAsked),
	"data-string":       lasting(notAList).toLogins(noObject).toReads(noObject),
	"data-number":       lasting(notAList).toLogins(noObject).toReads(noObject),
	"data-nested":       lasting(notAList).toLogins(noToken).toReads(notAsked),
	"data-nested-twice": lasting(notAList).toLogins(noToken).toReads(notAsked),
	"data-array": { // which is an empty list, said
		every: nothing, second: firstPage.failing(page2Empty), once: nothing,
		login: unread.calling(0).failing(noObject), read: noObject,
	},

	"list-bare":    harmless(),
	"list-missing": lasting(notAList),
	"list-null":    lasting(notAList),
	"list-object":  lasting(notAList),
	"list-string":  lasting(notAList),
	"list-nested":  lasting(notAList),
	"list-in-list": {
		every:  unread.calling(2).missing(1).failing("page 2 repeats"),
		second: firstPage.calling(3).missing(1).failing(page3Empty),
		once:   unread.deleting("T5 T6").calling(3).missing(1).failing(page3Empty),
	},
	"list-empty": {every: nothing, second: healthy.deleting("T2"), once: nothing},
	"pages-empty": {
		every: unread.failing("page 1 is empty"), second: firstPage.failing(page2Empty), once: unread.failing("page 1 is empty"),
	},
	"total-missing":    harmless(),
	"total-high":       {every: healthy.calling(3).failing(page3Empty), second: healthy.calling(3), once: healthy},
	"total-low":        harmless(),
	"total-zero":       harmless(),
	"total-negative":   lasting("data.total cannot be read"),
	"total-string":     harmless(),
	"total-nonsense":   lasting("data.total cannot be read"),
	"total-null":       harmless(),
	"has-next":         harmless(),
	"has-next-always":  {every: healthy.calling(3).failing(page3Empty), second: healthy.calling(3), once: healthy},
	"short-first-page": {every: healthy.calling(3).failing(page3Empty), second: healthy, once: healthy.calling(3).failing(page3Empty)},
	"same-page":        {every: firstPage.failing("page 2 repeats"), second: firstPage.failing("page 2 repeats"), once: healthy},
	"same-page-no-total": {
		every: unread.calling(2).failing("page 2 repeats"), second: healthy.deleting("T2"), once: healthy.deleting("T5 T6"),
	},
	"endless": {
		every: unread.calling(1000).failing("more than 1000 pages"), second: healthy.deleting("T2").calling(3), once: healthy.deleting("T5 T6"),
	},
	"page-cap": {every: healthy.calling(3), second: healthy.calling(3).failing(page3Empty), once: healthy.calling(3).failing(page3Empty)},
	"overlap":  harmless(),

	"rows-wrong":        badRows,
	"row-bad":           badRow,
	"row-no-status":     badRow,
	"row-null-status":   badRow,
	"row-numeric-code":  badRow,
	"row-bad-code":      badRow,
	"rows-padded":       {every: healthy.deleting(""), second: healthy.deleting("T2"), once: healthy.deleting("T5 T6")},
	"rows-status-only":  badRows, // a vendor's field status is not read for inspectionStatus
	"rows-short-words":  harmless(),
	"rows-unknown-word": {every: healthy.deleting("T1 T2 T3 T4 T5 T6 T7"), second: healthy.deleting("T2 T5 T6 T7"), once: healthy.deleting("T1 T2 T3 T4 T5 T6")},
	"rows-yes-no":       harmless(),
	"rows-zoned":        harmless(),
	"duplicates-agree":  harmless(),
	"duplicates-differ": {every: healthy.deleting("T1 T2 T5 T6"), second: healthy, once: healthy.deleting("T1 T2 T5 T6")},

	"login-refused-code": lasting(notAccepted),
	"token-missing":      lasting(noToken),
	"token-empty":        lasting("cannot be sent in a header"),
	"token-number":       lasting(noToken),
	"expires-string":     harmless(),
	"expires-zero":       harmless(),
	"expires-negative":   harmless(),
	"expires-word":       harmless(),
	"expires-null":       harmless(),
	"expires-missing":    harmless(),
	"expires-huge":       harmless(),
	"expires-tiny":       harmless(),
	"token-one-call":     {login: healthy.calling(3).logging(2)},
	"token-dead":         {login: unread.calling(2).logging(2).failing("the token is not accepted")},
	"token-ends-others":  harmless(),

	"refused-401":      refused("the token is not accepted"),
	"refused-401-html": refused("the token is not accepted").shown(),
	"refused-403":      refused("this machine's IP"),
	"refused-code":     refused("the token is not accepted"),

	"not-found":           {read: "SureM has no such template"},
	"not-found-code":      {read: "SureM has no such template"},
	"detail-other":        {read: notAsked},
	"detail-no-code":      {read: notAsked},
	"detail-no-status":    {read: "no single inspectionStatus"},
	"detail-status-twice": {read: "no single inspectionStatus"},
	"detail-in-list":      {read: noObject},
	"detail-huge":         {},
}
