package surem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/templates"
)

const (
	maxPages     = 1000
	maxListBytes = 64 << 20
)

// Summaries reads the list of a hospital's sender key, page by page. A list that did not
// come to its end is returned with Complete false beside the reason; when not even its first
// page could be read it is List{}. The errors are Detail's, ErrNotFound aside. turn says how
// the calls queue for slots; nil is a reader.
func (c *Client) Summaries(ctx context.Context, h hospitals.Hospital, turn *Turn) (templates.List, error) {
	a := c.account(h.UserCode)
	l := listing{paged: c.o.SummaryPath.has("page"), total: unknown}
	if c.o.SummaryPath.has("size") {
		l.asked = c.o.PageSize
	}
	for n := range maxPages {
		path, err := c.o.SummaryPath.Expand(map[string]any{
			"senderKey": h.SenderKey.Reveal(), "page": c.o.FirstPage + n, "size": c.o.PageSize,
		})
		if err != nil {
			return templates.List{}, fmt.Errorf("summaries: %w", err)
		}
		var p page
		r := &request{op: opSummaries, url: c.base + path, turn: turn, read: func(data gjson.Result) (err error) {
			p, err = readPage(data)
			return err
		}}
		if err := c.call(ctx, a, r); err != nil {
			return l.list, err
		}
		l.bytes += r.size
		end, why := l.add(p)
		if why != nil {
			return l.list, incomplete(why)
		}
		if end {
			l.list.Complete = true
			return l.list, nil
		}
		if l.bytes > maxListBytes {
			return l.list, incomplete(errors.New("the list is larger than 64 MiB"))
		}
	}
	return l.list, incomplete(fmt.Errorf("the list has more than %d pages", maxPages))
}

func incomplete(why error) error {
	return &Error{Op: opSummaries, Outcome: outcomeBad, Status: 200, Err: why}
}

// unknown is the total of a list that says none.
const unknown = -1

// page is one answer of SureM's to the call for summaries.
type page struct {
	rows    []row
	total   int  // of all pages; unknown when it is not said
	more    bool // hasNext
	hasNext bool // it is said
}

// row is one summary, or what can be said of a bad one.
type row struct {
	summary templates.Summary
	code    string // of a bad row too; "" when it has none that can be used
	bad     bool
}

// listing puts pages together.
type listing struct {
	paged bool // SureM is asked for more than one page
	asked int  // rows per page; 0 = SureM is not told

	list  templates.List
	seen  map[string]bool // codes of earlier pages
	last  []string        // codes of the last page, in its order
	total int             // as it was said last
	bytes int
}

// add takes the next page, and reports whether it ends the list, or why the list cannot be
// read to its end. A total or hasNext decides; without either, a page that is shorter than
// was asked for ends it.
func (l *listing) add(p page) (end bool, why error) {
	l.list.Pages++
	codes := make([]string, len(p.rows))
	for i, r := range p.rows {
		codes[i] = r.code
	}
	if l.list.Pages > 1 && len(codes) > 0 && slices.Equal(codes, l.last) {
		return false, fmt.Errorf("page %d repeats the one before", l.list.Pages)
	}
	l.last = codes
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	for _, r := range p.rows {
		if r.code == "" || !l.seen[r.code] {
			l.list.Listed++
		}
		if r.bad {
			l.list.BadRows++
		} else {
			l.list.Summaries = append(l.list.Summaries, r.summary)
		}
	}
	for _, code := range codes {
		l.seen[code] = true
	}

	if p.total >= len(p.rows) { // one that its own page belies, 0 beside rows, says nothing
		l.total = p.total
	}
	short := len(p.rows) < l.asked || len(p.rows) == 0
	switch {
	case l.total > l.list.Listed || p.more:
		if len(p.rows) == 0 {
			return false, fmt.Errorf("page %d is empty, though SureM says there is more: %s", l.list.Pages, l.progress())
		}
		if !l.paged {
			return false, fmt.Errorf("SureM says there is more, and SUREM_SUMMARY_PATH asks for no page: %s", l.progress())
		}
		return false, nil
	case l.total != unknown || p.hasNext || !l.paged:
		return true, nil
	}
	return short, nil
}

func (l *listing) progress() string {
	if l.total == unknown {
		return strconv.Itoa(l.list.Listed) + " rows so far"
	}
	return fmt.Sprintf("%d rows of %d so far", l.list.Listed, l.total)
}

// readPage reads the data of a summaries' answer: data.list, or data itself an array.
func readPage(data gjson.Result) (page, error) {
	p := page{total: unknown}
	list := data
	if data.IsObject() {
		var n int
		var err error
		if list, n = templates.Member(data, "list"); n > 1 {
			return page{}, errors.New("data holds list twice")
		}
		if p.total, err = readTotal(data); err != nil {
			return page{}, err
		}
		if next, n := templates.Member(data, "hasNext"); n > 0 && next.Type != gjson.Null {
			if p.more, p.hasNext = readBool(next); !p.hasNext || n > 1 {
				return page{}, errors.New("data.hasNext cannot be read")
			}
		}
	}
	if !list.IsArray() {
		return page{}, errors.New("neither data nor data.list is a list")
	}
	list.ForEach(func(_, v gjson.Result) bool {
		p.rows = append(p.rows, readRow(v))
		return true
	})
	return p, nil
}

// readTotal reads data.total, a whole number or a string of one.
func readTotal(data gjson.Result) (int, error) {
	total, n := templates.Member(data, "total")
	if n == 0 || n == 1 && total.Type == gjson.Null {
		return unknown, nil
	}
	number, err := total.Num, error(nil)
	if total.Type == gjson.String {
		number, err = strconv.ParseFloat(strings.TrimSpace(total.Str), 64)
	}
	usable := total.Type == gjson.Number || total.Type == gjson.String && err == nil
	if n > 1 || !usable || !(number >= 0 && number < 1<<31) || number != math.Trunc(number) {
		return unknown, errors.New("data.total cannot be read")
	}
	return int(number), nil
}

// readRow reads one summary. A row is bad that has no usable code or no status, or either
// twice or of another type.
func readRow(v gjson.Result) row {
	code, codes := templates.Member(v, "templateCode")
	if codes != 1 || code.Type != gjson.String || templates.CheckCode(code.Str) != nil {
		return row{bad: true}
	}
	status, statuses := templates.Member(v, "inspectionStatus")
	if statuses != 1 || isBlank(status) {
		return row{bad: true, code: code.Str}
	}
	name, _ := templates.Member(v, "name")
	dormant, _ := templates.Member(v, "dormant")
	s := templates.Summary{Code: code.Str, Status: templates.Status(status.Str), Raw: v.Raw}
	if name.Type == gjson.String {
		s.Name = name.Str
	}
	s.Dormant, _ = readBool(dormant)
	return row{summary: s, code: s.Code}
}

func isBlank(v gjson.Result) bool {
	return v.Type != gjson.String || strings.TrimSpace(v.Str) == ""
}
