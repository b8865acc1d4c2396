package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/templates"
)

// hospital finds the hospital that a path names.
func (s *server) hospital(serve func(http.ResponseWriter, *http.Request, hospitals.Hospital)) handler {
	return func(w http.ResponseWriter, r *http.Request, at target) {
		if h, ok := s.find(w, at.hospitalID); ok {
			serve(w, r, h)
		}
	}
}

// find returns the hospital with an id, or answers why there is none.
func (s *server) find(w http.ResponseWriter, id string) (h hospitals.Hospital, ok bool) {
	if !hospitals.ValidID(id) {
		problem{Status: http.StatusBadRequest, Detail: "a hospital id is 1 to 64 of A-Z, a-z, 0-9, _ and -"}.write(w)
		return h, false
	}
	if h, ok = s.Directory.Get(id); !ok {
		problem{Status: http.StatusNotFound, Detail: "no such hospital"}.write(w)
	}
	return h, ok
}

// template finds the hospital and checks the template code that a path names.
func (s *server) template(serve func(http.ResponseWriter, *http.Request, hospitals.Hospital, string)) handler {
	return func(w http.ResponseWriter, r *http.Request, at target) {
		h, ok := s.find(w, at.hospitalID)
		if !ok {
			return
		}
		if err := templates.CheckCode(at.code); err != nil {
			problem{Status: http.StatusBadRequest, Detail: err.Error()}.write(w)
			return
		}
		serve(w, r, h, at.code)
	}
}

// reloaded takes a changed HOSPITALS_FILE in first.
func (s *server) reloaded(serve handler) handler {
	return func(w http.ResponseWriter, r *http.Request, at target) {
		s.Looker.Reload()
		serve(w, r, at)
	}
}

// cacheStatus says, as RFC 9211 spells it, where an answer came from.
var cacheStatus = map[templates.Via][]string{
	templates.Hit:       {"alimtalk-syncer; hit"},
	templates.Stored:    {"alimtalk-syncer; fwd=miss; stored"},
	templates.Missed:    {"alimtalk-syncer; fwd=miss"},
	templates.Collapsed: {"alimtalk-syncer; fwd=miss; collapsed"},
	templates.Bypass:    {"alimtalk-syncer; fwd=bypass"},
}

func (s *server) detail(w http.ResponseWriter, r *http.Request, h hospitals.Hospital, code string) {
	answer, err := s.Reader.Read(r.Context(), h, code)
	if err != nil {
		s.fail(w, r, h, code, err, problemFor(err))
		return
	}
	w.Header()["Cache-Status"] = cacheStatus[answer.Via]
	write(w, "application/json", http.StatusOK, answer.Document)
}

func (s *server) forget(w http.ResponseWriter, r *http.Request, h hospitals.Hospital, code string) {
	err := s.Reader.Forget(r.Context(), h, code)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, templates.ErrWrongType):
		problem{Status: http.StatusConflict, Detail: "what stands under the template's key in Redis is no string, so it is not ours to delete"}.write(w)
	default:
		s.fail(w, r, h, code, err, redisAway)
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request, h hospitals.Hospital) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		problem{Status: http.StatusBadRequest, Detail: "the query is not spelled as name=PART, escaped"}.write(w)
		return
	}
	reading, err := s.Looker.Look(r.Context(), h, "list")
	if err != nil {
		s.fail(w, r, h, "", err, problemFor(err))
		return
	}
	if reading.Unread {
		s.fail(w, r, h, "", reading.ListErr, unreadable(reading.ListErr))
		return
	}
	complete := reading.List.Complete && reading.ListErr == nil
	write(w, "application/json", http.StatusOK,
		listBody(h.ID, complete, reading.CacheErr == nil, shown(reading.List.Summaries, query.Get("name"))))
}

// shown leaves out what a clinic cannot use, and names that part is not in.
func shown(all []templates.Summary, part string) []templates.Summary {
	var rows []templates.Summary
	for _, row := range all {
		if !row.Dormant && row.Status.State() != templates.Deleted && strings.Contains(row.Name, part) {
			rows = append(rows, row)
		}
	}
	return rows
}

// listBody is put together by hand because rows travel byte for byte, and encoding/json
// would rewrite them. A hospital id needs no escaping.
func listBody(hospitalID string, complete, compared bool, rows []templates.Summary) string {
	var b strings.Builder
	b.WriteString(`{"hospitalId":"` + hospitalID +
		`","complete":` + strconv.FormatBool(complete) +
		`,"compared":` + strconv.FormatBool(compared) +
		`,"templates":[`)
	for i, row := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(row.Raw)
	}
	b.WriteString("]}")
	return b.String()
}

func (s *server) sync(w http.ResponseWriter, r *http.Request, h hospitals.Hospital) {
	reading, err := s.Looker.Look(r.Context(), h, "manual")
	if err != nil {
		s.fail(w, r, h, "", err, problemFor(err))
		return
	}
	var p problem
	switch {
	case reading.Unread, reading.ListErr != nil:
		err, p = reading.ListErr, unreadable(reading.ListErr)
	case reading.CacheErr != nil:
		err, p = reading.CacheErr, redisAway
	default:
		writeJSON(w, "application/json", http.StatusOK, reading.Report)
		return
	}
	reading.Report.Error = p.Detail // the reading's own text is for the log: it may quote SureM and name addresses
	p.Report = &reading.Report
	s.fail(w, r, h, "", err, p)
}
