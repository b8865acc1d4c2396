package statuspage

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"alimtalk-syncer/internal/invalidate"
)

// refresh is how often the page asks again, in seconds.
const refresh = 15

var (
	//go:embed page.css
	css string
	//go:embed page.html
	source string

	page = template.Must(template.New("page").Parse(source))

	// policy lets the page load nothing, run nothing and be framed by nobody: what slipped
	// through the escaping would still do nothing.
	policy = "default-src 'none'; style-src 'sha256-" + hash(css) + "'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Page returns the handler of the page. ?q= names the hospitals (and templates) that are
// shown, ?open keeps their list unfolded.
func Page(o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		q := strings.TrimSpace(r.URL.Query().Get("q"))
		v := view{
			Status: o.status(q, now), W: negotiate(strings.Join(r.Header.Values("Accept-Language"), ",")),
			Query: q, Open: q != "" || r.URL.Query().Has("open"), Refresh: refresh, CSS: template.CSS(css), //nolint:gosec // our own
			now: now, zone: o.Zone,
		}
		v.Failing = v.Status.Hospitals.List
		if i := slices.IndexFunc(v.Failing, func(h invalidate.HospitalStatus) bool { return !h.Failing() }); i >= 0 {
			v.Failing, v.Others = v.Failing[:i], v.Failing[i:]
		}
		var b bytes.Buffer
		if err := page.Execute(&b, v); err != nil {
			panic(fmt.Errorf("the status page: %w", err)) // a bug; the server keeps it in its request
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Language", v.W.Tag)
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Vary", "Accept-Language")
		_, _ = w.Write(b.Bytes())
	})
}

// JSON returns the handler of the same as JSON, a Status. ?q= is the page's.
func JSON(o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := json.Marshal(o.status(strings.TrimSpace(r.URL.Query().Get("q")), time.Now()))
		if err != nil {
			panic(fmt.Errorf("the status as JSON: %w", err)) // a bug; the server keeps it in its request
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
}

// unfolded is how many past events are shown unfolded.
const unfolded = 10

func head[T any](events []T) []T { return events[:min(len(events), unfolded)] }
func tail[T any](events []T) []T { return events[min(len(events), unfolded):] }

// view is what the template sees.
type view struct {
	Status
	W               *words
	Query           string
	Open            bool
	Refresh         int
	CSS             template.CSS
	Failing, Others []invalidate.HospitalStatus // of Status.Hospitals.List

	Rows any // of a table within the page

	now  time.Time
	zone *time.Location
}

// The last changes and recoveries, and those before them.
func (v view) LastChanges() []Change                   { return head(v.Changes) }
func (v view) EarlierChanges() []Change                { return tail(v.Changes) }
func (v view) LastRecovered() []invalidate.Recovery    { return head(v.Recovered) }
func (v view) EarlierRecovered() []invalidate.Recovery { return tail(v.Recovered) }

// With returns the view of a table of these rows.
func (v view) With(rows any) view {
	v.Rows = rows
	return v
}

// Level is how grave it is: "ok", "new", "warn" or "bad". It names the colour.
func (v view) Level() string {
	level := "ok"
	if v.Schedule.LastPass == nil {
		level = "new"
	}
	for _, p := range v.Problems {
		switch p.Kind {
		case KindStuck, KindRedisAway, KindSureMRefused, KindSureMAway:
			return "bad"
		case KindHospitalsFailing:
			if v.Hospitals.Failing == v.Hospitals.Total {
				return "bad"
			}
		}
		level = "warn"
	}
	return level
}

// Headline is the one line that says whether all is well.
func (v view) Headline() string {
	if len(v.Problems) == 0 {
		if v.Schedule.LastPass == nil {
			return v.W.NoPassYet
		}
		return v.W.AllWell
	}
	lines := make([]string, len(v.Problems))
	for i, p := range v.Problems {
		lines[i] = visible(v.W.Problem(p))
	}
	return strings.Join(lines, " · ")
}

// Next says when the next pass is, or that one runs; "" when none is planned.
func (v view) Next() string {
	switch {
	case v.Schedule.Running:
		return v.W.PassRuns
	case v.Schedule.Next.IsZero():
		return ""
	}
	when := v.W.Now
	if left := v.Schedule.Next.Sub(v.now); left > 0 {
		when = fmt.Sprintf(v.W.In, v.Span(left.Round(time.Second)))
	}
	return fmt.Sprintf(v.W.NextPass, when)
}

// LastPass says what the last pass has come to, "" before the first one.
func (v view) LastPass() string {
	p := v.Schedule.LastPass
	if p == nil {
		return ""
	}
	took := time.Duration(p.DurationMS) * time.Millisecond
	text := fmt.Sprintf(v.W.LastPass, v.Ago(p.Began.Add(took)), v.Span(took), count(p.OK), count(p.Hospitals), count(p.Compared), count(p.Invalidated))
	if p.Elsewhere > 0 {
		text += fmt.Sprintf(v.W.Elsewhere, count(p.Elsewhere))
	}
	return text
}

// State says how a part fares.
func (v view) State(state string) string {
	switch state {
	case "ok":
		return v.W.OK
	case "away":
		return v.W.Away
	case "refused":
		return v.W.Refused
	case "limited":
		return v.W.Limited
	}
	return v.W.Bad
}

// Median is within what time half of the shown changes were found, "" where none is known.
func (v view) Median() string {
	if all := v.withins(); len(all) > 0 {
		return v.Span(all[len(all)/2])
	}
	return ""
}

// Longest is within what time all shown changes were found, "" where none is known.
func (v view) Longest() string {
	if all := v.withins(); len(all) > 0 {
		return v.Span(all[len(all)-1])
	}
	return ""
}

func (v view) withins() []time.Duration {
	var all []time.Duration
	for _, c := range v.Changes {
		if c.Within > 0 && !c.DryRun {
			all = append(all, c.Within.Round(time.Second))
		}
	}
	slices.Sort(all)
	return all
}

// ReasonOf says why an entry went.
func (v view) ReasonOf(r invalidate.Reason) string { return v.W.Reasons[string(r)] }

// Lasted is how long a failure had lasted.
func (v view) Lasted(r invalidate.Recovery) string {
	return v.Span(r.Until.Sub(r.Since).Truncate(time.Second))
}

// Zone is the name of the page's time zone.
func (v view) Zone() string { return v.zone.String() }

// Ago says how long ago something was.
func (v view) Ago(t time.Time) string {
	switch {
	case t.IsZero():
		return v.W.NotYet
	case v.now.Sub(t) < time.Second:
		return v.W.JustNow
	}
	return fmt.Sprintf(v.W.Ago, v.For(t))
}

// Span says a duration.
func (v view) Span(d time.Duration) string { return v.W.Span(d) }

// For says how long something has lasted.
func (v view) For(t time.Time) string { return v.Span(v.now.Sub(t).Truncate(time.Second)) }

// Clock writes a time of day in the page's zone, with its date when that is not today's.
func (v view) Clock(t time.Time) string {
	t, now := t.In(v.zone), v.now.In(v.zone)
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// ISO writes a time for machines.
func (view) ISO(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Percent writes a ratio, rounded down so that only all is 100 %; "–" where there is none.
func (view) Percent(r *float64) string {
	if r == nil {
		return "–"
	}
	return strconv.FormatFloat(math.Floor(1000**r+1e-9)/10, 'f', 1, 64) + " %"
}

// Times writes a quotient, "–" where there is none.
func (view) Times(r *float64) string {
	if r == nil {
		return "–"
	}
	return strconv.FormatFloat(*r, 'f', 1, 64)
}

// Say fills figures into a text.
func (view) Say(format string, figures ...any) string {
	for i, f := range figures {
		switch n := f.(type) {
		case int:
			figures[i] = count(n)
		case uint64:
			figures[i] = number(n)
		}
	}
	return fmt.Sprintf(format, figures...)
}

// Omitted is how many hospitals match and are not shown.
func (v view) Omitted() int { return v.Hospitals.Matching - len(v.Hospitals.List) }

// Visible is visible for the template.
func (view) Visible(s any) string { return visible(fmt.Sprint(s)) }

func count(n int) string { return number(uint64(max(n, 0))) }

// visible writes the characters that do not show, or that turn or hide others, as \u escapes:
// a code or an error that came from outside looks like what it is.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == utf8.RuneError || !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
