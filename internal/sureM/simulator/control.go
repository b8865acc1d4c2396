package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

const trapPath = "/_sim/trap"

// Count is how often something was called.
type Count struct {
	Operation string `json:"operation"`
	SenderKey string `json:"senderKey,omitempty"`
	Code      string `json:"code,omitempty"`
	Calls     int    `json:"calls"`
	Faulty    int    `json:"faulty"` // of these, answered with a fault
	Peak      int    `json:"peak"`   // most at one time
}

// Stats is what has happened since the start.
type Stats struct {
	Counts  []Count `json:"counts"`  // by operation, sender key and code
	Tokens  int     `json:"tokens"`  // given out and not ended
	Trapped int     `json:"trapped"` // callers that followed a redirect
}

type count struct{ calls, faulty, running, peak int }

// counted returns what is counted at a ref; s.mu is held.
func (s *Simulator) counted(at ref) *count {
	c, ok := s.counts[at]
	if !ok {
		c = new(count)
		s.counts[at] = c
	}
	return c
}

// Calls returns how many calls of an operation came; an empty senderKey or code stands
// for any.
func (s *Simulator) Calls(operation, senderKey, code string) int {
	n := 0
	for _, c := range s.Stats().Counts {
		if c.Operation == operation && (senderKey == "" || c.SenderKey == senderKey) && (code == "" || c.Code == code) {
			n += c.Calls
		}
	}
	return n
}

// Stats returns what has happened since the start.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Counts: make([]Count, 0, len(s.counts)), Tokens: len(s.tokens), Trapped: s.trapped}
	for at, c := range s.counts {
		st.Counts = append(st.Counts, Count{at.operation, at.senderKey, at.code, c.calls, c.faulty, c.peak})
	}
	slices.SortFunc(st.Counts, func(a, b Count) int {
		return strings.Compare(a.Operation+"\x00"+a.SenderKey+"\x00"+a.Code, b.Operation+"\x00"+b.SenderKey+"\x00"+b.Code)
	})
	return st
}

// control serves what a test or a person needs to steer the Simulator over HTTP:
//
//	GET, PUT, DELETE /_sim/faults            the faults in force, as a JSON list of Fault
//	GET /_sim/kinds                          every Kind
//	GET /_sim/stats                          Stats
//	PUT, DELETE /_sim/templates/{sender}/{code}   changes the members that are given, or adds; takes away
//	DELETE /_sim/tokens                      ends every token
func (s *Simulator) control() {
	s.mux.HandleFunc("GET /_sim/kinds", func(w http.ResponseWriter, _ *http.Request) { reply(w, Kinds) })
	s.mux.HandleFunc("GET /_sim/stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.Stats()) })
	s.mux.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.Faults()) })
	s.mux.HandleFunc("PUT /_sim/faults", func(w http.ResponseWriter, r *http.Request) {
		var faults []Fault
		if err := decode(r.Body, &faults); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		done(w, s.SetFaults(faults...))
	})
	s.mux.HandleFunc("DELETE /_sim/faults", func(w http.ResponseWriter, _ *http.Request) { done(w, s.SetFaults()) })
	s.mux.HandleFunc("PUT /_sim/templates/{sender}/{code}", func(w http.ResponseWriter, r *http.Request) {
		var members json.RawMessage
		if err := decode(r.Body, &members); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		done(w, s.merge(r.PathValue("sender"), r.PathValue("code"), members))
	})
	s.mux.HandleFunc("DELETE /_sim/templates/{sender}/{code}", func(w http.ResponseWriter, r *http.Request) {
		done(w, s.Remove(r.PathValue("sender"), r.PathValue("code")))
	})
	s.mux.HandleFunc("DELETE /_sim/tokens", func(w http.ResponseWriter, _ *http.Request) {
		s.RevokeTokens("")
		done(w, nil)
	})
	s.mux.HandleFunc(trapPath, func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		s.trapped++
		s.mu.Unlock()
		success(json.RawMessage("null")).write(w)
	})
}

// merge changes the given members of a template, or adds one that has only these.
func (s *Simulator) merge(senderKey, code string, members json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.template(senderKey, code)
	if err != nil {
		old = &Template{Name: code}
	}
	all := make(map[string]json.RawMessage)
	for _, layer := range []json.RawMessage{encode(old), members} {
		if err := json.Unmarshal(layer, &all); err != nil {
			return fmt.Errorf("change template: %w", err)
		}
	}
	var next Template
	if err := decode(bytes.NewReader(encode(all)), &next); err != nil {
		return fmt.Errorf("change template: %w", err)
	}
	next.Code = code
	return s.put(senderKey, next)
}

// decode reads one JSON value and refuses members that v has not: they are slips of the pen.
func decode(r io.Reader, v any) error {
	d := json.NewDecoder(io.LimitReader(r, 1<<20))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(encode(v), '\n'))
}

// done answers 204, or says what was wrong with the request.
func done(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
