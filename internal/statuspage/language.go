package statuspage

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// words are the page's texts in one language.
type words struct {
	Tag      string // of the html element
	Problems map[string]string

	AllWell, NoPassYet, DryRun                                     string
	NextPass, PassRuns, LastPass, Elsewhere                        string // with places for figures
	Redis, SureM, File, Hospitals, Failing, Uptime, Version, Times string
	OK, Away, Refused, Limited, Bad                                string
	HitRatio, Hits, CleanLooks, Looks, Stale, StaleNote            string
	SingleFlight, InFlight, Waiters, OneTemplate                   string
	PerLoader, Requests, Suppressed, Loads, LoadsFailed            string
	FailingNow, Since, LastSuccess, LastAttempt, Error             string
	Changes, NoChanges, NoneFound, When, Hospital, Template, State string
	Reason, Within, Unknown, WouldGo                               string
	Recovered, Lasted, Others, All, Listed, Compared, Gone         string
	NotYet, Filter, FilterHint, ShowAll, KeepOpen, Fold            string
	NoMatch, Omitted, Earlier                                      string
	Reasons                                                        map[string]string

	Ago, In, Now, JustNow                 string // "%s ago"
	Millis, Seconds, Minutes, Hours, Days string // "%s s"
}

var english = &words{
	Tag: "en",
	Problems: map[string]string{
		KindStopping:         "Shutting down",
		KindStuck:            "No progress: %s",
		KindRedisAway:        "Redis is away: reads go to SureM, and changes are not found",
		KindSureMRefused:     "SureM refuses us: is the secret right, and this machine's IP on its list?",
		KindSureMAway:        "SureM is away",
		KindSureMLimited:     "SureM holds us back (429)",
		KindHospitalsFailing: "%d of %d hospitals fail",
		KindHospitalsFile:    "The hospitals file is bad, the former list stays in force",
		KindMassChange:       "More than half of the compared entries had changed: do list and detail use the same words?",
	},
	AllWell: "All is well", NoPassYet: "No pass has ended yet", DryRun: "Dry run: nothing is deleted",
	NextPass: "Next pass %s", PassRuns: "A pass is running",
	LastPass:  "Last pass %s, took %s: %s of %s hospitals ok, %s entries compared, %s invalidated",
	Elsewhere: "; other replicas read %s",
	Redis:     "Redis", SureM: "SureM", File: "Hospitals file", Hospitals: "Hospitals", Failing: "%s failing",
	Uptime: "up %s", Version: "version %s", Times: "Clock times are in %s. The page refreshes itself.",
	OK: "ok", Away: "away", Refused: "refuses us", Limited: "holds us back", Bad: "bad",
	HitRatio: "Cache hit ratio", Hits: "%s hits, %s misses, %s errors",
	CleanLooks: "Looks that found nothing wrong", Looks: "%s clean, %s with changes, %s failed",
	Stale: "Entries were wrong for at most", StaleNote: "median of the changes below; the longest %s",
	SingleFlight: "Single-flight", InFlight: "Loads in flight", Waiters: "Waiting now", OneTemplate: "at most %s for one template",
	PerLoader: "Requests per load", Requests: "%s requests, %s loads",
	Suppressed: "Loads suppressed", Loads: "%s shared another's load",
	LoadsFailed: "%s loads failed, %s requests rejected",
	FailingNow:  "Failing now", Since: "Failing for", LastSuccess: "Last success", LastAttempt: "Last attempt", Error: "Error",
	Changes: "Last state changes", NoChanges: "None since the start.", NoneFound: "None found.", When: "When", Hospital: "Hospital", Template: "Template",
	State: "State", Reason: "Reason", Within: "Wrong for at most", Unknown: "unknown", WouldGo: "dry run, still there",
	Recovered: "Failures that are over", Lasted: "Lasted", Others: "Hospitals that do not fail (%s)", All: "Hospitals",
	Listed: "Listed", Compared: "Compared", Gone: "Invalidated",
	NotYet: "not yet", Filter: "Filter", FilterHint: "hospital or template", ShowAll: "Show all",
	KeepOpen: "Keep this open", Fold: "Fold", NoMatch: "No hospital matches.", Omitted: "%s more are not shown; the filter finds them.", Earlier: "Earlier ones (%s)",
	Reasons: map[string]string{"status": "state", "field": "field", "unreadable": "unreadable", "ambiguous": "ambiguous", "sender": "sender changed"},
	Ago:     "%s ago", In: "in %s", Now: "now", JustNow: "just now",
	Millis: "%s ms", Seconds: "%s s", Minutes: "%s min", Hours: "%s h", Days: "%s d",
}

var korean = &words{
	Tag: "ko",
	Problems: map[string]string{
		KindStopping:         "종료하는 중입니다",
		KindStuck:            "진행이 멈췄습니다: %s",
		KindRedisAway:        "Redis에 연결되지 않습니다. 조회는 슈어엠에서 직접 가져오고, 변경은 감지하지 못합니다",
		KindSureMRefused:     "슈어엠이 접근을 거부합니다. 비밀 키와 허용 IP를 확인하세요",
		KindSureMAway:        "슈어엠에 연결되지 않습니다",
		KindSureMLimited:     "슈어엠이 호출을 제한하고 있습니다(429)",
		KindHospitalsFailing: "병원 %[2]d곳 중 %[1]d곳이 실패하고 있습니다",
		KindHospitalsFile:    "병원 목록 파일에 오류가 있어 이전 목록을 그대로 씁니다",
		KindMassChange:       "비교한 항목의 절반 넘게 상태가 달랐습니다. 목록과 상세가 같은 상태값을 쓰는지 확인하세요",
	},
	AllWell: "모두 정상입니다", NoPassYet: "아직 끝난 동기화가 없습니다", DryRun: "시험 실행: 아무것도 삭제하지 않습니다",
	NextPass: "다음 동기화 %s", PassRuns: "동기화 진행 중",
	LastPass:  "지난 동기화 %s(%s 걸림): 병원 %[4]s곳 중 %[3]s곳 정상, %[5]s건 비교, %[6]s건 무효화",
	Elsewhere: ", 다른 인스턴스가 %s곳 처리",
	Redis:     "Redis", SureM: "슈어엠", File: "병원 목록 파일", Hospitals: "병원", Failing: "실패 %s곳",
	Uptime: "가동 %s", Version: "버전 %s", Times: "시각은 %s 기준이며, 페이지는 자동으로 새로 고쳐집니다.",
	OK: "정상", Away: "연결 안 됨", Refused: "접근 거부", Limited: "호출 제한", Bad: "오류",
	HitRatio: "캐시 적중률", Hits: "적중 %s, 실패 %s, 오류 %s",
	CleanLooks: "이상이 없던 확인", Looks: "이상 없음 %s, 변경 발견 %s, 실패 %s",
	Stale: "캐시가 틀렸던 최대 시간", StaleNote: "아래 변경의 중앙값, 최댓값 %s",
	SingleFlight: "Single-Flight", InFlight: "진행 중인 로드", Waiters: "대기 중인 요청", OneTemplate: "한 템플릿에 최대 %s",
	PerLoader: "로드당 요청", Requests: "요청 %s, 로드 %s",
	Suppressed: "로드 억제율", Loads: "다른 로드를 공유한 요청 %s",
	LoadsFailed: "실패한 로드 %s, 거절한 요청 %s",
	FailingNow:  "실패 중인 병원", Since: "실패 지속", LastSuccess: "마지막 성공", LastAttempt: "마지막 시도", Error: "오류",
	Changes: "최근 상태 변경", NoChanges: "시작 이후 없습니다.", NoneFound: "찾은 것이 없습니다.", When: "시각", Hospital: "병원", Template: "템플릿",
	State: "상태", Reason: "이유", Within: "틀렸던 최대 시간", Unknown: "알 수 없음", WouldGo: "시험 실행, 남아 있음",
	Recovered: "해소된 실패", Lasted: "지속", Others: "실패하지 않는 병원 (%s)", All: "병원",
	Listed: "목록", Compared: "비교", Gone: "무효화",
	NotYet: "아직 없음", Filter: "찾기", FilterHint: "병원 또는 템플릿", ShowAll: "모두 보기",
	KeepOpen: "펼친 채로 두기", Fold: "접기", NoMatch: "해당하는 병원이 없습니다.", Omitted: "%s곳은 표시하지 않았습니다. 찾기로 볼 수 있습니다.", Earlier: "이전 내역 (%s)",
	Reasons: map[string]string{"status": "상태", "field": "필드", "unreadable": "읽을 수 없음", "ambiguous": "모호함", "sender": "발신 프로필 변경"},
	Ago:     "%s 전", In: "%s 후", Now: "지금", JustNow: "방금",
	Millis: "%sms", Seconds: "%s초", Minutes: "%s분", Hours: "%s시간", Days: "%s일",
}

// negotiate picks the language of an Accept-Language header (RFC 9110, 12.5.4): the one of
// the greatest weight; of equal ones that which is named first; English when none is wanted.
func negotiate(header string) *words {
	type wish struct {
		weight float64
		place  int // in the header
	}
	wishes := map[string]wish{}
	for place, part := range strings.Split(header, ",") {
		tag, params, weighed := strings.Cut(part, ";")
		tag, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		weight := 1.0
		if weighed {
			var ok bool
			if weight, ok = parseWeight(params); !ok {
				continue
			}
		}
		if w, seen := wishes[tag]; tag != "" && (!seen || weight > w.weight) {
			wishes[tag] = wish{weight, place}
		}
	}
	best, bestWish := english, wish{}
	for _, w := range []*words{english, korean} {
		is, named := wishes[w.Tag]
		if !named {
			is = wishes["*"] // what is not named is as welcome as this says
		}
		if is.weight > bestWish.weight || is.weight == bestWish.weight && is.weight > 0 && is.place < bestWish.place {
			best, bestWish = w, is
		}
	}
	return best
}

// parseWeight reads "q=0.8": 0 to 1 with at most three decimals.
func parseWeight(s string) (float64, bool) {
	name, value, _ := strings.Cut(strings.TrimSpace(s), "=")
	if !strings.EqualFold(name, "q") || len(value) < 1 || len(value) > 5 || strings.Trim(value, "0123456789.") != "" {
		return 0, false
	}
	q, err := strconv.ParseFloat(value, 64)
	return q, err == nil && q <= 1
}

// Problem says a problem.
func (w *words) Problem(p Problem) string { return fmt.Sprintf(w.Problems[p.Kind], p.args...) }

// Span says a duration, in the largest unit of which there are two or more.
func (w *words) Span(d time.Duration) string {
	switch {
	case d < 0:
		return w.Span(0)
	case 0 < d && d < time.Second:
		return fmt.Sprintf(w.Millis, number(uint64(max(d.Milliseconds(), 1))))
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf(w.Seconds, strconv.FormatFloat(d.Seconds(), 'f', 1, 64))
	case d < 2*time.Minute:
		return fmt.Sprintf(w.Seconds, number(uint64(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf(w.Minutes, number(uint64(d.Minutes())))
	case d < 48*time.Hour:
		return fmt.Sprintf(w.Hours, number(uint64(d.Hours())))
	}
	return fmt.Sprintf(w.Days, number(uint64(d.Hours()/24)))
}

// number writes a count with commas between its thousands.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
