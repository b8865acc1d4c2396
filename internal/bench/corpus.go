package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

const (
	perHospital = 15      // entries
	entrySize   = 3 << 10 // bytes, about
	keyFormat   = "infotalk:template:{<hospitalId>}:<templateCode>"
	period      = 20 // hospitals after which the pattern of changes repeats
)

// document is a template as SureM's detail call shows it, in Korean and with line breaks.
func document(code, status string, size int) string {
	const line = "#{고객명}님, 안녕하세요.\n예약하신 일정을 안내드립니다.\r\n▶ 일시: #{예약일시}\n▶ \"#{병원명}\" 02-000-0000\n"
	d := struct {
		Code     string           `json:"templateCode"`
		Name     string           `json:"name"`
		State    string           `json:"inspectionStatus"`
		Status   string           `json:"status"`
		Dormant  bool             `json:"dormant"`
		Modified string           `json:"modifiedAt"`
		Content  string           `json:"templateContent"`
		Buttons  []map[string]any `json:"buttons"`
		Quick    []map[string]any `json:"quickReplies"`
		Comments []map[string]any `json:"comments"`
	}{
		Code: code, Name: "예약 안내 " + code, State: status, Status: "A", Modified: "2026-11-02 10:20:30",
		Content: strings.Repeat(line, max(1, (size-900)/(len(line)+8))),
		Buttons: []map[string]any{
			{"ordering": 1, "name": "채널 추가", "linkType": "AC"},
			{"ordering": 2, "name": "예약 확인", "linkType": "WL", "linkMo": "https://m.example.com/reservations/#{번호}", "linkPc": "https://www.example.com/reservations/#{번호}"},
		},
		Quick:    []map[string]any{},
		Comments: []map[string]any{{"userName": "검수자", "content": "버튼의 링크를 확인해 주세요.", "createdAt": "2026-11-01 09:00:00"}},
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}

func hospitalID(n int) string { return fmt.Sprintf("H%05d", n) }
func code(i int) string       { return fmt.Sprintf("APPT_CONFIRM_%02d", i) }
func key(n, i int) string     { return "infotalk:template:{" + hospitalID(n) + "}:" + code(i) }

// entries are the hospitals' lists, which all have the same codes, and what lists of them
// say: SureM in the bench's own process, without latency.
type entries struct {
	hospitals int
	documents [perHospital]string
	rows      [3][period][]templates.Summary // by what has changed, and by hospital
	changed   int                            // nothing, onePercent or everything
}

const (
	nothing = iota
	onePercent
	everything
)

var changes = []string{nothing: "nothing changed", onePercent: "1 % of the entries changed", everything: "all changed"}

func newEntries(hospitals, size int) *entries {
	e := &entries{hospitals: hospitals}
	for i := range perHospital {
		e.documents[i] = document(code(i), "APPROVED", size)
		for what := range e.rows {
			for n := range period {
				row := templates.Summary{Code: code(i), Name: "예약 안내 " + code(i), Status: "APPROVED"}
				if has(what, n, i) {
					row.Status = "REQUESTED"
				}
				row.Raw = fmt.Sprintf(`{"templateCode":%q,"name":%q,"inspectionStatus":%q,"dormant":false}`, row.Code, row.Name, string(row.Status))
				e.rows[what][n] = append(e.rows[what][n], row)
			}
		}
	}
	return e
}

// has reports whether entry i of hospital n has changed.
func has(what, n, i int) bool {
	return what == everything || what == onePercent && (n*perHospital+i)%100 == 7
}

// Summaries implements invalidate.Source.
func (e *entries) Summaries(_ context.Context, h hospitals.Hospital, _ *surem.Turn) (templates.List, error) {
	return e.list(h.ID), nil
}

func (e *entries) list(id string) templates.List {
	n := 0
	for _, digit := range id[1:] {
		n = n*10 + int(digit-'0')
	}
	rows := e.rows[e.changed][n%period]
	return templates.List{Pages: 1, Summaries: rows, Listed: len(rows), Complete: true}
}

// fill writes the entries that changes have deleted, or all.
func (e *entries) fill(ctx context.Context, rdb *redis.Client, what int) error {
	for from := 0; from < e.hospitals; from += 100 {
		pipe := rdb.Pipeline()
		for n := from; n < min(from+100, e.hospitals); n++ {
			for i := range perHospital {
				if has(what, n, i) {
					pipe.Set(ctx, key(n, i), e.documents[i], 0)
				}
			}
		}
		if pipe.Len() == 0 {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("filling Redis: %w", err)
		}
	}
	return nil
}

// directory lists the hospitals, each with a sender key of its own.
func (e *entries) directory() (*hospitals.Directory, error) {
	list := make([]hospitals.Entry, e.hospitals)
	for n := range list {
		list[n] = hospitals.Entry{ID: hospitalID(n), SenderKey: hospitals.Secret("sender-key-" + hospitalID(n))}
	}
	return hospitals.New(list, "clinic", "secret")
}
