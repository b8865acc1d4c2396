package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

func (s *Simulator) summaries(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	senderKey := query.Get("senderKey")
	page, size := positive(query.Get("page"), 1), positive(query.Get("size"), 100)
	s.serve(w, r, ref{Summaries, senderKey, ""}, func() *answer {
		if a := s.refusal(r, senderKey); a != nil {
			return a
		}
		own := s.senders[senderKey]
		all := make([]json.RawMessage, 0, len(own.order))
		for _, code := range own.order {
			all = append(all, summary(own.templates[code]))
		}
		a := success(nil)
		a.list = &list{all: all, page: page, size: size, total: encode(len(all))}
		a.list.turn(page, size)
		return a
	})
}

func (s *Simulator) detail(w http.ResponseWriter, r *http.Request) {
	senderKey, code := r.URL.Query().Get("senderKey"), r.PathValue("code")
	s.serve(w, r, ref{Detail, senderKey, code}, func() *answer {
		if a := s.refusal(r, senderKey); a != nil {
			return a
		}
		t, err := s.template(senderKey, code)
		if err != nil {
			return failure(http.StatusNotFound, "A4040", "템플릿이 존재하지 않습니다.")
		}
		return success(encode(t))
	})
}

// serve counts a call, asks say what SureM would answer (s.mu is held), spoils that
// by the first fault that fits, and sends it.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request, at ref, say func() *answer) {
	s.mu.Lock()
	c := s.counted(at)
	c.calls++
	c.running++
	c.peak = max(c.peak, c.running)
	latency := s.latency
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		c.running--
		s.mu.Unlock()
	}()

	pause(r.Context(), latency)
	s.mu.Lock()
	a := say()
	var delay time.Duration
	if !a.refused {
		if f := s.fault(at, a); f != nil {
			c.faulty++
			delay = f.delay()
			f.kind.spoil(a)
		}
	}
	s.mu.Unlock()

	pause(r.Context(), delay)
	s.held(r.Context(), at)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody is there, or we are closing: no answer is none
	}
	if a.send != nil {
		a.send(w, r, a)
	} else {
		a.write(w)
	}
}

// summary is a template's row in the list.
func summary(t *Template) json.RawMessage {
	return encode(struct {
		Code             string `json:"templateCode"`
		Name             string `json:"name"`
		InspectionStatus string `json:"inspectionStatus"`
		Status           string `json:"status"`
		Dormant          bool   `json:"dormant"`
		Block            bool   `json:"block"`
		ModifiedAt       string `json:"modifiedAt"`
		SenderKey        string `json:"senderKey"`
	}{t.Code, t.Name, t.InspectionStatus, t.Status, t.Dormant, t.Block, t.ModifiedAt, t.SenderKey})
}

func positive(s string, otherwise int) int {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return min(n, 10_000)
	}
	return otherwise
}
