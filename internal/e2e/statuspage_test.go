package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// status is the part of GET /v1/status that these tests look at.
type status struct {
	OK       bool
	Problems []struct{ Kind, Text string }
	Redis    string
	SureM    string `json:"surem"`
	Schedule struct {
		Next     string
		LastPass *struct{ Hospitals, OK, Compared, Invalidated int }
	}
	Hospitals struct {
		Total, Failing, Matching int
		List                     []struct {
			HospitalID, LastAttempt, LastSuccess, FailingSince, Error string
			OK                                                        bool
			Listed, Compared                                          int
		}
	}
	Changes []struct {
		HospitalID, TemplateCode, From, To, Reason, At string
		WithinSeconds                                  float64
	}
	Recovered []struct{ HospitalID, Error, Since, Until string }
	Looks     struct{ Clean, Changed, Failed int }
	Cache     struct {
		Hits, Misses int
		HitRatio     *float64
	}
	SingleFlight struct{ Requests, Loaders int }
}

func (d *daemon) status(query string) status {
	d.w.t.Helper()
	var s status
	if err := json.Unmarshal([]byte(d.get("/v1/status"+query).want(d.w.t, http.StatusOK).body), &s); err != nil {
		d.w.t.Fatal(err)
	}
	return s
}

func (s status) has(kind string) bool {
	for _, p := range s.Problems {
		if p.Kind == kind {
			return true
		}
	}
	return false
}

func TestTheStatusFollowsWhatHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002")
	w.offer("H001", template{code: "T1", status: "REQUESTED"})
	w.offer("H002", template{code: "T1", status: "APPROVED"})
	d := w.start("SUREM_MAX_RETRIES=0")
	eventually(t, soon, "all is well after a pass", func() bool {
		s := d.status("")
		return s.OK && s.Schedule.LastPass != nil && s.Schedule.LastPass.OK == 2 && s.Schedule.Next != "" && len(s.Hospitals.List) == 2
	})
	d.read("H001", "T1").want(t, http.StatusOK)
	d.read("H001", "T1").want(t, http.StatusOK)
	if s := d.status(""); s.Cache.Hits != 1 || s.Cache.Misses != 1 || *s.Cache.HitRatio != 0.5 || s.SingleFlight.Requests != 1 || s.SingleFlight.Loaders != 1 {
		t.Errorf("after two reads: %+v, %+v", s.Cache, s.SingleFlight)
	}
	w.surem.setStatus(senderKey("H001"), "T1", "APPROVED")
	eventually(t, soon, "the change is shown", func() bool { return len(d.status("").Changes) == 1 })
	c := d.status("").Changes[0]
	if c.HospitalID != "H001" || c.TemplateCode != "T1" || c.From != "REQUESTED" || c.To != "APPROVED" || c.Reason != "status" || c.WithinSeconds <= 0 || c.WithinSeconds > soon.Seconds() {
		t.Errorf("%+v", c)
	}
	m := d.metrics()
	if m["syncer_change_detection_seconds_count"] != 1 || m["syncer_change_detection_seconds_sum"] > soon.Seconds() || m[`syncer_looks_total{result="changed"}`] != 1 || m[`syncer_looks_total{result="clean"}`] < 2 {
		t.Errorf("detection %v, %v s", m["syncer_change_detection_seconds_count"], m["syncer_change_detection_seconds_sum"])
	}
	w.surem.each(func(c call) *reply {
		if c.sender == senderKey("H002") {
			return failure
		}
		return nil
	})
	eventually(t, soon, "a hospital fails", func() bool { return d.status("").Hospitals.Failing == 1 })
	s := d.status("")
	if h := s.Hospitals.List[0]; h.HospitalID != "H002" || h.OK || h.Error == "" || h.FailingSince == "" || h.LastSuccess == "" || s.OK || !s.has("hospitals failing") {
		t.Errorf("%+v", s)
	}
	if s := d.status("?q=h001"); s.Hospitals.Matching != 1 || len(s.Hospitals.List) != 1 || s.Hospitals.Total != 2 || s.Hospitals.Failing != 1 {
		t.Errorf("filtered: %+v", s.Hospitals)
	}
	page := d.get("/", "Accept-Language: ko").want(t, http.StatusOK)
	for _, part := range []string{"병원 2곳 중 1곳이 실패하고 있습니다", "H002", "REQUESTED", `<html lang="ko">`} {
		if !strings.Contains(page.body, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	w.surem.each(nil)
	eventually(t, soon, "the failure is over and still shown", func() bool {
		s := d.status("")
		return s.Hospitals.Failing == 0 && len(s.Recovered) == 1 && s.Recovered[0].HospitalID == "H002" && s.Recovered[0].Error != ""
	})
	w.redis.Kill()
	eventually(t, soon, "Redis is away", func() bool { s := d.status(""); return s.Redis == "away" && s.has("redis away") && !s.OK })
	for _, path := range []string{"/", "/v1/status"} {
		a := d.get(path).want(t, http.StatusOK)
		for _, secret := range w.hidden() {
			if strings.Contains(a.body, secret) {
				t.Errorf("%s shows %q", path, secret)
			}
		}
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: header %v", path, a.header)
		}
	}
}

func TestABrowserGetsInToThePageAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start("API_TOKENS=crm-token-1111,crm-token-2222")
	basic := func(user, password string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	a := d.get("/").want(t, http.StatusUnauthorized)
	if challenges := a.header.Values("WWW-Authenticate"); !strings.Contains(strings.Join(challenges, ","), "Basic ") {
		t.Errorf("challenges %q", challenges)
	}
	for _, header := range []string{basic("", "crm-token-2222"), basic("anybody", "crm-token-1111"), "Authorization: Bearer crm-token-1111"} {
		if a := d.get("/", header).want(t, http.StatusOK); !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("Content-Type %q", a.header.Get("Content-Type"))
		}
	}
	for _, header := range []string{basic("crm-token-1111", ""), basic("anybody", "crm-token-3333"), "Authorization: Basic crm-token-1111", "Authorization: Bearer "} {
		d.get("/", header).problem(t, http.StatusUnauthorized)
	}
	for _, path := range []string{"/v1/status", listPath("H001"), detailPath("H001", "T1")} {
		d.get(path, basic("anybody", "crm-token-1111")).problem(t, http.StatusUnauthorized)
	}
	d.get("/v1/status", "Authorization: Bearer crm-token-1111").want(t, http.StatusOK)
	d.get("/v1/status").problem(t, http.StatusUnauthorized)
}

func TestThePageIsForThisMachineAndGETOnly(t *testing.T) {
	t.Parallel()
	d := newWorld(t, "H001").quiet().start()
	for _, path := range []string{"/", "/v1/status"} {
		d.get(path, "Host: evil.example").problem(t, http.StatusMisdirectedRequest)
		d.do(t.Context(), http.MethodPost, path, "Origin: http://"+d.addr).problem(t, http.StatusMethodNotAllowed)
		if a := d.do(t.Context(), http.MethodHead, path); a.status != http.StatusOK || a.body != "" {
			t.Errorf("HEAD %s: %d, %d bytes", path, a.status, len(a.body))
		}
	}
	d.get("/index.html").problem(t, http.StatusNotFound)
	d.get("/v1/status/").problem(t, http.StatusNotFound)
}
