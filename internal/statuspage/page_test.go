package statuspage

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/templates"
)

// hostile is what somebody else may have put into a code, a status or an error.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</style><svg onload=alert(1)>`,
	`</td></table><h1>`, `{{.Secret}}`, `javascript:alert(1)`, "&lt;b&gt;", "a\u202Eb\u2066c", "nbsp\u00a0here", "nul\x00bad\xff", "<!--", `<meta http-equiv=refresh content=0>`,
}

var (
	tag   = regexp.MustCompile(`<[a-zA-Z!/][^>]*>`)
	value = regexp.MustCompile(`="[^"]*"`)
)

func TestWhatComesFromOutsideIsEscaped(t *testing.T) {
	plain := get(t, Page(busy().options()), "/", "en").Body.String()
	allowed := map[string]bool{}
	for _, tag := range tag.FindAllString(plain, -1) {
		name, _, _ := strings.Cut(strings.Trim(tag, "<>"), " ")
		allowed[name] = true
	}
	for _, bad := range hostile {
		s := busy()
		s.version = bad
		s.passes.Hospitals[7].Error = bad
		s.passes.Hospitals[3].Error = bad
		s.passes.Recovered[0].Error = bad
		s.stuck = errors.New(bad)
		s.passes.Changes = nil
		s.change("H00001", bad, bad, bad, time.Minute, time.Minute)
		for _, target := range []string{"/", "/?q=" + url.QueryEscape(bad), "/?q=h0"} {
			body := get(t, Page(s.options()), target, "en").Body.String()
			for _, tag := range tag.FindAllString(body, -1) {
				name, rest, _ := strings.Cut(strings.Trim(tag, "<>"), " ")
				if !allowed[name] || strings.Contains(value.ReplaceAllString(rest, ""), "=") || strings.Contains(value.ReplaceAllString(" "+rest, ""), " on") {
					t.Errorf("%q has become the tag %s", bad, tag)
				}
			}
			for _, r := range []string{"\u202e", "\u2066", "\u00a0", "\x00", "\xff"} {
				if strings.Contains(body, r) && strings.Contains(target, "q=h0") {
					t.Errorf("%q shows as it is", r)
				}
			}
			if target == "/" && strings.Count(html.UnescapeString(body), visible(bad)) < 8 {
				t.Errorf("%q is not shown wherever it stands", bad)
			}
		}
	}
}

func TestThePolicyAllowsThePagesOwnStyleAndNothingElse(t *testing.T) {
	w := get(t, Page(calm(1).options()), "/", "")
	policy := w.Header().Get("Content-Security-Policy")
	_, rest, _ := strings.Cut(w.Body.String(), "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	if !strings.Contains(policy, "default-src 'none'; style-src 'sha256-"+hash(style)+"';") {
		t.Errorf("policy %s does not fit the style", policy)
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(w.Body.String(), "style=") {
		t.Errorf("policy %s", policy)
	}
}

func TestTheHeadlineSaysWhetherAllIsWell(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*scene)
		level    string
		headline string // a part
		kinds    []string
	}{
		{"calm", func(*scene) {}, "ok", "All is well", nil},
		{"no pass yet", func(s *scene) { s.passes.Pass = invalidate.PassStatus{} }, "new", "No pass has ended yet", nil},
		{"redis", func(s *scene) { s.health.Redis = "away" }, "bad", "Redis is away", []string{KindRedisAway}},
		{"refused", func(s *scene) { s.health.SureM = "refused" }, "bad", "SureM refuses us", []string{KindSureMRefused}},
		{"away", func(s *scene) { s.health.SureM = "away" }, "bad", "SureM is away", []string{KindSureMAway}},
		{"limited", func(s *scene) { s.health.SureM = "limited" }, "warn", "429", []string{KindSureMLimited}},
		{"file", func(s *scene) { s.health.HospitalsFile = "bad" }, "warn", "hospitals file is bad", []string{KindHospitalsFile}},
		{"one fails", func(s *scene) { s.fail(0, time.Minute, "x") }, "warn", "1 of 2 hospitals fail", []string{KindHospitalsFailing}},
		{"all fail", func(s *scene) { s.fail(0, time.Minute, "x"); s.fail(1, time.Minute, "x") }, "bad", "2 of 2 hospitals fail", []string{KindHospitalsFailing}},
		{"mass change", func(s *scene) { s.passes.Pass.MassChange = true }, "warn", "More than half", []string{KindMassChange}},
		{"stopping", func(s *scene) { s.health.Stopping = true }, "warn", "Shutting down", []string{KindStopping}},
		{"stuck", func(s *scene) { s.stuck = errors.New("a tick is overdue") }, "bad", "No progress: a tick is overdue", []string{KindStuck}},
		{"two", func(s *scene) { s.health.Redis = "away"; s.fail(0, time.Minute, "x") }, "bad", " · 1 of 2 hospitals fail", []string{KindRedisAway, KindHospitalsFailing}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := calm(2)
			c.change(s)
			body := get(t, Page(s.options()), "/", "en").Body.String()
			if !strings.Contains(body, `class="headline `+c.level+`"`) || !strings.Contains(html.UnescapeString(body), c.headline) {
				t.Errorf("not %s, %q", c.level, c.headline)
			}
			status := decode(t, s, "")
			var kinds []string
			for _, p := range status.Problems {
				kinds = append(kinds, p.Kind)
			}
			if fmt.Sprint(kinds) != fmt.Sprint(c.kinds) || status.OK != (len(kinds) == 0) {
				t.Errorf("ok %t, kinds %q, want %q", status.OK, kinds, c.kinds)
			}
			for _, p := range korean.Problems {
				if strings.Contains(get(t, Page(s.options()), "/", "ko").Body.String(), "%!") {
					t.Fatalf("a figure has no place: %s", p)
				}
			}
		})
	}
}

// decode returns the JSON of a scene.
func decode(t testing.TB, s *scene, query string) Status {
	t.Helper()
	w := get(t, JSON(s.options()), "/v1/status"+query, "")
	if c := w.Header().Get("Content-Type"); c != "application/json" {
		t.Errorf("Content-Type %q", c)
	}
	var status Status
	decoder := json.NewDecoder(w.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&status); err != nil {
		t.Fatal(err)
	}
	return status
}

func TestFailingHospitalsComeFirstTheLongestFailingAtTheTop(t *testing.T) {
	status := decode(t, busy(), "")
	var ids []string
	for _, h := range status.Hospitals.List[:4] {
		ids = append(ids, h.HospitalID)
	}
	if want := "[H00041 a-hospital-id-of-sixty-four-characters-which-is-as-long-as-it-ge H00001 H00002]"; fmt.Sprint(ids) != want {
		t.Errorf("%v, want %s", ids, want)
	}
	body := get(t, Page(busy().options()), "/", "en").Body.String()
	failing, others := strings.Index(body, `id="failing"`), strings.Index(body, "<details>\n<summary>Hospitals that do not fail (118)")
	for id, want := range map[string]bool{">H00041<": true, ">a-hospital-id": true, ">H00003<": false} {
		at := strings.LastIndex(body, `<th scope="row" class="id"`+id)
		if at < 0 || failing < 0 || others < 0 || (failing < at && at < others) != want {
			t.Errorf("%s stands at %d; failing %d, others %d", id, at, failing, others)
		}
	}
}

func TestTheFilterIsAPlainGET(t *testing.T) {
	s := busy()
	status := decode(t, s, "?q=h0000")
	if h := status.Hospitals; h.Total != 120 || h.Failing != 2 || h.Matching != 8 || len(h.List) != 8 || h.List[0].HospitalID != "H00001" {
		t.Errorf("%+v", h)
	}
	for _, c := range status.Changes {
		if !strings.HasPrefix(c.HospitalID, "H0000") {
			t.Errorf("change of %s", c.HospitalID)
		}
	}
	if status = decode(t, s, "?q=예약안내"); status.Hospitals.Matching != 0 || len(status.Changes) != 7 || len(status.Recovered) != 0 {
		t.Errorf("by a code: %d hospitals, %d changes", status.Hospitals.Matching, len(status.Changes))
	}
	if body := get(t, Page(s.options()), "/?q=H00002", "en").Body.String(); !strings.Contains(body, `value="H00002"`) || !strings.Contains(body, "<details open>") {
		t.Error("the page forgets the filter, or folds what it found")
	}
	if body := get(t, Page(s.options()), "/?q=nobody", "en").Body.String(); !strings.Contains(body, "No hospital matches.") {
		t.Error("nothing says that nothing matches")
	}
}

func TestManyHospitalsMakeABoundedPage(t *testing.T) {
	s := calm(70_000)
	for i := range 5000 {
		s.fail(i, time.Hour, strings.Repeat("<&>", 100))
	}
	body := get(t, Page(s.options()), "/", "en").Body.String()
	if len(body) > 3<<20 || !strings.Contains(body, "69,000 more are not shown") {
		t.Errorf("%d bytes", len(body))
	}
	if n := len(decode(t, s, "").Hospitals.List); n != maxHospitals {
		t.Errorf("%d hospitals as JSON", n)
	}
	if len(decode(t, s, "?q=H69999").Hospitals.List) != 1 {
		t.Error("the filter does not find the last one")
	}
	body = get(t, Page(calm(1000).options()), "/", "en").Body.String()
	if len(body) > 512<<10 || strings.Contains(body, "not shown") || !strings.Contains(body, ">H01000<") {
		t.Errorf("a thousand hospitals: %d bytes", len(body))
	}
}

func TestRatiosAreTheSeedDocuments(t *testing.T) {
	s := calm(1)
	f := decode(t, s, "").SingleFlight
	if f.RequestsPerLoader == nil || *f.RequestsPerLoader != 20 || f.SuppressionRatio == nil || *f.SuppressionRatio != 0.95 {
		t.Errorf("%+v", f)
	}
	if c := decode(t, s, "").Cache; c.HitRatio == nil || *c.HitRatio != 0.9 {
		t.Errorf("%+v", c)
	}
	body := get(t, Page(s.options()), "/", "en").Body.String()
	for _, text := range []string{"20.0", "95.0 %", "90.0 %", "1,234,567 clean"} {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %s", text)
		}
	}
	s.figures.FlightRequests, s.figures.FlightStarted, s.figures.CacheHits, s.figures.CacheMisses = 0, 0, 0, 0
	status := decode(t, s, "")
	if status.SingleFlight.RequestsPerLoader != nil || status.SingleFlight.SuppressionRatio != nil || status.Cache.HitRatio != nil {
		t.Error("a ratio of nothing")
	}
}

func TestTheJSONSaysWhatThePageSays(t *testing.T) {
	s := busy()
	at := time.Date(2026, 11, 29, 16, 9, 10, 123456789, time.FixedZone("KST", 9*60*60))
	s.passes.Changes = []invalidate.PastChange{{HospitalID: "H00001", At: at, Within: 61500 * time.Millisecond,
		Change: invalidate.Change{Code: "T1", From: "REQ", To: "APPROVED", Reason: invalidate.ReasonStatus}}}
	body := get(t, JSON(s.options()), "/v1/status", "").Body.String()
	want := `"changes":[{"hospitalId":"H00001","templateCode":"T1","from":"REQ","to":"APPROVED","reason":"status","at":"2026-11-29T07:09:10.123Z","withinSeconds":61.5}]`
	if !strings.Contains(body, want) {
		t.Errorf("no %s in %s", want, body)
	}
	if strings.Contains(body, "0001-01-01") {
		t.Error("a time that never was")
	}
	empty := get(t, JSON((&scene{}).options()), "/v1/status", "").Body.String()
	for _, list := range []string{`"list":[]`, `"changes":[]`, `"recovered":[]`} {
		if !strings.Contains(empty, list) {
			t.Errorf("no %s in %s", list, empty)
		}
	}
}

func TestTheLanguageIsNegotiated(t *testing.T) {
	for header, want := range map[string]string{
		"": "en", "ko": "ko", "ko-KR": "ko", "KO-kr,en;q=0.9": "ko", "en-US,en;q=0.9,ko;q=0.8": "en", "en;q=0.5, ko;q=0.6": "ko",
		"ja,ko;q=0.2": "ko", "ja": "en", "*": "en", "ko, *;q=0.1": "ko", "*;q=0.5, ko;q=0.1": "en", "en;q=0, *": "ko", "ko;q=0": "en",
		"en;q=0,ko;q=0": "en", "ko;q=0.5,en;q=0.5": "ko", "en;q=0.5,ko;q=0.5": "en", "ko ; q=0.9 , en ; q=0.8": "ko",
		"ko;q=2, en;q=0.1": "en", "ko;q=NaN,en;q=0.1": "en", "ko;q=,en;q=0.1": "en", "ko;level=1,en;q=0.1": "en", "ko;q=0.0001,en;q=0.1": "en",
		"kok;q=1,en;q=0.1": "en", ",,;;q=,ko": "ko", "ko;q=0.3,ko-KR;q=0.9,en;q=0.5": "ko", strings.Repeat("x;q=0.1,", 5000) + "ko": "ko",
	} {
		if got := negotiate(header).Tag; got != want {
			t.Errorf("%.60q: %s, want %s", header, got, want)
		}
	}
	w := get(t, Page(busy().options()), "/", "ko-KR,ko;q=0.9,en;q=0.8")
	if !strings.Contains(w.Body.String(), `<html lang="ko">`) || w.Header().Get("Content-Language") != "ko" || w.Header().Get("Vary") != "Accept-Language" {
		t.Errorf("header %v", w.Header())
	}
}

func TestBothLanguagesSayEverything(t *testing.T) {
	en, ko := reflect.ValueOf(*english), reflect.ValueOf(*korean)
	for i := range en.NumField() {
		name := en.Type().Field(i).Name
		if en.Field(i).Len() == 0 || ko.Field(i).Len() == 0 {
			t.Errorf("%s is missing", name)
			continue
		}
		if en.Field(i).Kind() == reflect.String {
			if strings.Count(en.Field(i).String(), "%") != strings.Count(ko.Field(i).String(), "%") {
				t.Errorf("%s has other figures", name)
			}
			continue
		}
		for _, key := range en.Field(i).MapKeys() {
			if !ko.Field(i).MapIndex(key).IsValid() {
				t.Errorf("%s lacks %v", name, key)
			}
		}
	}
	for _, r := range []invalidate.Reason{invalidate.ReasonStatus, invalidate.ReasonField, invalidate.ReasonUnreadable, invalidate.ReasonAmbiguous, invalidate.ReasonSender} {
		if english.Reasons[string(r)] == "" || korean.Reasons[string(r)] == "" {
			t.Errorf("no words for the reason %s", r)
		}
	}
	for _, language := range []string{"en", "ko"} {
		for _, s := range []*scene{calm(0), calm(1), busy(), {}} {
			if body := get(t, Page(s.options()), "/", language).Body.String(); strings.Contains(body, "%!") || strings.Contains(body, "NaN") {
				t.Errorf("%s: a figure is out of place", language)
			}
		}
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", time.Microsecond: "1 ms", 999 * time.Millisecond: "999 ms", 1500 * time.Millisecond: "1.5 s", 9 * time.Second: "9 s",
		119 * time.Second: "119 s", 2 * time.Minute: "2 min", 119 * time.Minute: "119 min", 2 * time.Hour: "2 h", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d", 100_000 * time.Hour: "4,166 d",
	} {
		if got := english.Span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestADryRunSaysSo(t *testing.T) {
	s := busy()
	s.dryRun = true
	s.passes.Changes[0].DryRun = true
	body := get(t, Page(s.options()), "/", "en").Body.String()
	if !strings.Contains(body, "nothing is deleted") || !strings.Contains(body, "still there") || !decode(t, s, "").DryRun {
		t.Error("the page does not say so")
	}
}

func FuzzPageStaysWhole(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, s)
	}
	want := len(tag.FindAllString(get(f, Page(changed("x").options()), "/?q=x", "en").Body.String(), -1))
	f.Fuzz(func(t *testing.T, text, language string) {
		// Whatever stands in the data, the page has the same tags.
		s := changed(text)
		if templates.Status(text) == "" {
			return
		}
		if got := len(tag.FindAllString(get(t, Page(s.options()), "/?q=x", "en;"+language).Body.String(), -1)); got != want {
			t.Errorf("%d tags, want %d", got, want)
		}
	})
}

// changed has one hospital, which fails, and one change, found by ?q=x.
func changed(text string) *scene {
	s := calm(1)
	s.passes.Hospitals[0].HospitalID = "x"
	s.fail(0, time.Hour, text)
	s.change("x", text, text, text, time.Hour, time.Minute)
	return s
}
