package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

var envelopeKinds = []Kind{
	{"error-code", "an error code under HTTP 200", anyCall, envelope(200, "A9999")},
	{"code-missing", "no code", anyCall, func(a *answer) { a.code = nil }},
	{"code-null", "the code is null", anyCall, func(a *answer) { a.code = json.RawMessage("null") }},
	{"code-number", "an error code as a number under HTTP 200", anyCall, func(a *answer) { envelope(200, "")(a); a.code = 9999 }},
	{"code-case", "a0000 instead of A0000", anyCall, func(a *answer) { a.code = "a0000" }},
	{"code-object", "the code is an object", anyCall, func(a *answer) { a.code = json.RawMessage(`{"value":"A0000"}`) }},
	{"envelope-array", "the envelope in an array", anyCall, func(a *answer) { a.body = array([]json.RawMessage{a.bytes()}) }},
	{"envelope-missing", "the data without an envelope", anyCall, func(a *answer) { a.body = a.payload() }},
	{"data-missing", "a success without data", anyCall, func(a *answer) { a.replace(nil) }},
	{"data-null", "a success whose data is null", anyCall, func(a *answer) { a.replace(json.RawMessage("null")) }},
	{"data-array", "data is an empty array", anyCall, func(a *answer) { a.replace(json.RawMessage("[]")) }},
	{"data-object", "data is an empty object", anyCall, func(a *answer) { a.replace(json.RawMessage("{}")) }},
	{"data-string", "data is its JSON in a string", anyCall, func(a *answer) { a.replace(encode(string(a.payload()))) }},
	{"data-number", "data is a number", anyCall, func(a *answer) { a.replace(json.RawMessage("1")) }},
	{"data-nested", "data inside another data", anyCall, func(a *answer) { a.replace(object("data", a.payload())) }},
	{"data-nested-twice", "a whole envelope inside data", anyCall, func(a *answer) { a.replace(a.bytes()) }},
}

var onlySummaries, onlyDetail, onlyLogin = []string{Summaries}, []string{Detail}, []string{Login}

var listKinds = []Kind{
	{"list-bare", "data itself is the array of rows, without a total", onlySummaries, func(a *answer) { a.replace(array(a.list.rows)) }},
	{"list-missing", "data without a list", onlySummaries, func(a *answer) { a.replace(object("total", a.list.total)) }},
	{"list-null", "the list is null", onlySummaries, func(a *answer) { a.replace(object("list", json.RawMessage("null"), "total", a.list.total)) }},
	{"list-object", "the list is an object of rows by their number", onlySummaries, listObject},
	{"list-string", "the list is a string", onlySummaries, func(a *answer) { a.replace(object("list", encode(string(array(a.list.rows))), "total", a.list.total)) }},
	{"list-nested", "the list is inside another list", onlySummaries, func(a *answer) { a.replace(object("list", object("list", array(a.list.rows)), "total", a.list.total)) }},
	{"list-in-list", "the list is an array of arrays", onlySummaries, func(a *answer) { a.list.rows = []json.RawMessage{array(a.list.rows)} }},
	{"list-empty", "says that there are no templates", onlySummaries, func(a *answer) { a.list.rows, a.list.total = nil, encode(0) }},
	{"pages-empty", "no rows on any page, the total right", onlySummaries, func(a *answer) { a.list.rows = nil }},
	{"total-missing", "no total: a short page ends the list", onlySummaries, func(a *answer) { a.list.total = nil }},
	{"total-high", "the total says ten rows more than there are", onlySummaries, func(a *answer) { a.list.total = encode(len(a.list.all) + 10) }},
	{"total-low", "the total says one row less than there are", onlySummaries, func(a *answer) { a.list.total = encode(max(0, len(a.list.all)-1)) }},
	{"total-zero", "the total is 0 beside rows", onlySummaries, func(a *answer) { a.list.total = encode(0) }},
	{"total-negative", "the total is -1", onlySummaries, func(a *answer) { a.list.total = encode(-1) }},
	{"total-string", "the total, right, in a string", onlySummaries, func(a *answer) { a.list.total = encode(strconv.Itoa(len(a.list.all))) }},
	{"total-nonsense", "the total is a word", onlySummaries, func(a *answer) { a.list.total = encode("many") }},
	{"total-null", "the total is null", onlySummaries, func(a *answer) { a.list.total = json.RawMessage("null") }},
	{"has-next", "hasNext, right, instead of a total", onlySummaries, func(a *answer) {
		l := a.list
		l.total, l.hasNext = nil, encode(l.page*l.size < len(l.all))
	}},
	{"has-next-always", "hasNext stays true behind the last page", onlySummaries, func(a *answer) { a.list.total, a.list.hasNext = nil, encode(true) }},
	{"short-first-page", "the first page lacks its last row, the total right", onlySummaries, func(a *answer) {
		if a.list.page == 1 && len(a.list.rows) > 0 {
			a.list.rows = a.list.rows[:len(a.list.rows)-1]
		}
	}},
	{"same-page", "the first page for ever, the total twice what there is", onlySummaries, func(a *answer) {
		a.list.turn(1, a.list.size)
		a.list.total = encode(2 * len(a.list.all))
	}},
	{"same-page-no-total", "a full first page for ever, without a total", onlySummaries, func(a *answer) {
		a.list.all = inventedRows(1, a.list.size)
		a.list.turn(1, a.list.size)
		a.list.total = nil
	}},
	{"endless", "new full pages for ever, the total always one page ahead", onlySummaries, func(a *answer) {
		a.list.rows = inventedRows(a.list.page, a.list.size)
		a.list.total = encode((a.list.page + 1) * a.list.size)
	}},
	{"page-cap", "pages of three rows, whatever was asked for, the total right", onlySummaries, func(a *answer) { a.list.turn(a.list.page, min(3, a.list.size)) }},
	{"overlap", "each page begins with the last row of the one before, the total right", onlySummaries, func(a *answer) {
		l := a.list
		if from := (l.page - 1) * (l.size - 1); l.size > 1 && l.page > 1 {
			from = min(from, len(l.all))
			l.rows = l.all[from:min(from+l.size, len(l.all))]
		}
	}},
}

var rowKinds = []Kind{
	{"rows-wrong", "rows that are a number, a string, null and an array", onlySummaries, func(a *answer) {
		for i := range a.list.rows {
			a.list.rows[i] = json.RawMessage([]string{"1", `"T1"`, "null", "[]"}[i%4])
		}
	}},
	{"row-bad", "the first row has no code", onlySummaries, firstRow(func(m map[string]any) { delete(m, "templateCode") })},
	{"row-no-status", "the first row has no inspection status", onlySummaries, firstRow(func(m map[string]any) { delete(m, "inspectionStatus") })},
	{"row-null-status", "the inspection status of the first row is null", onlySummaries, firstRow(func(m map[string]any) { m["inspectionStatus"] = nil })},
	{"row-numeric-code", "the code of the first row is a number", onlySummaries, firstRow(func(m map[string]any) { m["templateCode"] = 1001 })},
	{"row-bad-code", "the code of the first row is ..", onlySummaries, firstRow(func(m map[string]any) { m["templateCode"] = ".." })},
	{"rows-padded", "blanks behind every code", onlySummaries, eachRow(func(m map[string]any) { m["templateCode"] = fmt.Sprint(m["templateCode"], "  ") })},
	{"rows-status-only", "rows with status and without inspectionStatus", onlySummaries, eachRow(func(m map[string]any) { delete(m, "inspectionStatus") })},
	{"rows-short-words", "APR for APPROVED and the like: other words, same states", onlySummaries, eachRow(func(m map[string]any) {
		if short, ok := shortWords[fmt.Sprint(m["inspectionStatus"])]; ok {
			m["inspectionStatus"] = short
		}
	})},
	{"rows-unknown-word", "every inspection status is TSC03, a word of another vendor", onlySummaries, eachRow(func(m map[string]any) { m["inspectionStatus"] = "TSC03" })},
	{"rows-yes-no", "dormant and block as Y and N", onlySummaries, eachRow(func(m map[string]any) {
		m["dormant"], m["block"] = yesNo(m["dormant"]), yesNo(m["block"])
	})},
	{"rows-zoned", "times with a zone", onlySummaries, eachRow(func(m map[string]any) {
		if t, err := time.ParseInLocation(time.DateTime, fmt.Sprint(m["modifiedAt"]), kst); err == nil {
			m["modifiedAt"] = t.Format(time.RFC3339)
		}
	})},
	{"duplicates-agree", "the first row comes twice", onlySummaries, duplicate(func(map[string]any) {})},
	{"duplicates-differ", "the first row comes twice, once as DELETED", onlySummaries, duplicate(func(m map[string]any) { m["inspectionStatus"] = "DELETED" })},
}

var detailKinds = []Kind{
	{"not-found", "404 with an envelope: no such template", onlyDetail, envelope(404, "A4040")},
	{"not-found-code", "A4040 under HTTP 200: no such template", onlyDetail, envelope(200, "A4040")},
	{"detail-other", "the template of another code", onlyDetail, editData(func(m map[string]any) { m["templateCode"] = "SOMEONE_ELSES" })},
	{"detail-no-code", "no code in the template", onlyDetail, editData(func(m map[string]any) { delete(m, "templateCode") })},
	{"detail-no-status", "no inspection status in the template", onlyDetail, editData(func(m map[string]any) { delete(m, "inspectionStatus") })},
	{"detail-status-twice", "the inspection status twice, and not the same", onlyDetail, func(a *answer) {
		if rest, ok := bytes.CutSuffix(a.data, []byte("}")); ok {
			a.replace(append(rest[:len(rest):len(rest)], `,"inspectionStatus":"TSC03"}`...))
		}
	}},
	{"detail-in-list", "the template in an array", onlyDetail, func(a *answer) { a.replace(array([]json.RawMessage{a.data})) }},
	{"detail-huge", "a good template of 60 KB", onlyDetail, editData(func(m map[string]any) {
		m["templateContent"] = string(bytes.Repeat([]byte("진료 안내드립니다.\r\n"), 2200))
	})},
}

// shortWords are other spellings of the states.
var shortWords = map[string]string{"REGISTERED": "REG", "REQUESTED": "KREQ", "APPROVED": "apr", "REJECTED": "HREJ", "DELETED": "deleted"}

func listObject(a *answer) {
	var members []any
	for i, row := range a.list.rows {
		members = append(members, strconv.Itoa(i), row)
	}
	a.replace(object("list", object(members...), "total", a.list.total))
}

// eachRow edits every row of the page.
func eachRow(change func(map[string]any)) func(*answer) {
	return func(a *answer) {
		for i, row := range a.list.rows {
			a.list.rows[i] = edit(row, change)
		}
	}
}

// firstRow edits the first row of the page.
func firstRow(change func(map[string]any)) func(*answer) {
	return func(a *answer) {
		if len(a.list.rows) > 0 {
			a.list.rows[0] = edit(a.list.rows[0], change)
		}
	}
}

// duplicate adds the list's first row once more, edited, to the end of its first page.
func duplicate(change func(map[string]any)) func(*answer) {
	return func(a *answer) {
		if l := a.list; l.page == 1 && len(l.rows) > 0 {
			l.rows = append(l.rows[:len(l.rows):len(l.rows)], edit(l.rows[0], change))
			l.total = encode(len(l.all) + 1)
		}
	}
}

func editData(change func(map[string]any)) func(*answer) {
	return func(a *answer) { a.replace(edit(a.data, change)) }
}

// inventedRows is a full page of templates that do not exist.
func inventedRows(page, size int) []json.RawMessage {
	rows := make([]json.RawMessage, size)
	for i := range rows {
		code := fmt.Sprintf("NOBODYS_%d", (page-1)*size+i)
		rows[i] = summary(&Template{Code: code, Name: code, InspectionStatus: "APPROVED", Status: "A"})
	}
	return rows
}

func yesNo(v any) string {
	if v == true {
		return "Y"
	}
	return "N"
}
