package simulator

import (
	"fmt"
	"slices"
	"time"
)

// Template is a template as the detail call shows it. Summaries show its first fields.
type Template struct {
	Code             string    `json:"templateCode"`
	Name             string    `json:"name"`
	InspectionStatus string    `json:"inspectionStatus"` // REGISTERED, REQUESTED, APPROVED, …
	Status           string    `json:"status"`           // S stopped, A active, R approved but not yet sent
	Dormant          bool      `json:"dormant"`
	Block            bool      `json:"block"`
	ModifiedAt       string    `json:"modifiedAt"` // KST without a zone; set by whatever changes the template
	SenderKey        string    `json:"senderKey"`  // set by Put
	Content          string    `json:"templateContent"`
	MessageType      string    `json:"templateMessageType,omitempty"` // BA, EX, AD, MI
	Extra            string    `json:"templateExtra,omitempty"`
	CategoryCode     string    `json:"categoryCode,omitempty"`
	Buttons          []Button  `json:"buttons"`
	QuickReplies     []Button  `json:"quickReplies"`
	Comments         []Comment `json:"comments"`
}

// Button is a button or a quick reply under a message.
type Button struct {
	Ordering int    `json:"ordering"`
	Name     string `json:"name"`
	LinkType string `json:"linkType"` // WL web link, AL app link, BK keyword, MD message, AC add channel
	LinkMo   string `json:"linkMo,omitempty"`
	LinkPc   string `json:"linkPc,omitempty"`
}

// Comment is what a reviewer or the clinic wrote about a template.
type Comment struct {
	UserName  string `json:"userName"`
	Content   string `json:"content"`
	CreatedAt string `json:"createdAt"` // KST without a zone
}

// Change is one change of a template's inspection status. From is empty for a new
// template, To for one that is gone.
type Change struct {
	SenderKey, Code, From, To string
	At                        time.Time
}

type sender struct {
	userCode  string
	order     []string // codes as SureM lists them
	templates map[string]*Template
}

var kst = time.FixedZone("KST", 9*60*60)

// Timestamp writes a time as SureM does: in KST, without a zone.
func Timestamp(t time.Time) string { return t.In(kst).Format("2006-01-02 15:04:05") }

// Watch calls f for every change of an inspection status, one at a time and in their
// order, before any answer shows it. f must not call the Simulator.
func (s *Simulator) Watch(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = f
}

// Put adds a template to a sender key's, last in its list, or replaces the one with its code.
func (s *Simulator) Put(senderKey string, t Template) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(senderKey, t)
}

func (s *Simulator) put(senderKey string, t Template) error {
	own, ok := s.senders[senderKey]
	if !ok {
		return fmt.Errorf("put template: %w", errUnknown)
	}
	var from string
	if old, ok := own.templates[t.Code]; ok {
		from = old.InspectionStatus
	} else {
		own.order = append(own.order, t.Code)
	}
	now := time.Now()
	t.SenderKey, t.ModifiedAt = senderKey, Timestamp(now)
	if t.Buttons == nil {
		t.Buttons = []Button{}
	}
	if t.QuickReplies == nil {
		t.QuickReplies = []Button{}
	}
	if t.Comments == nil {
		t.Comments = []Comment{}
	}
	own.templates[t.Code] = &t
	s.changed(Change{senderKey, t.Code, from, t.InspectionStatus, now})
	return nil
}

// Edit changes a template in place.
func (s *Simulator) Edit(senderKey, code string, edit func(*Template)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.template(senderKey, code)
	if err != nil {
		return fmt.Errorf("edit template: %w", err)
	}
	next := *t
	edit(&next)
	next.Code = code
	return s.put(senderKey, next)
}

// SetStatus gives a template another inspection status.
func (s *Simulator) SetStatus(senderKey, code, status string) error {
	return s.Edit(senderKey, code, func(t *Template) { t.InspectionStatus = status })
}

// Remove takes a template away: no summary lists it, and its detail is not found.
func (s *Simulator) Remove(senderKey, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.template(senderKey, code)
	if err != nil {
		return fmt.Errorf("remove template: %w", err)
	}
	own := s.senders[senderKey]
	delete(own.templates, code)
	own.order = slices.DeleteFunc(own.order, func(c string) bool { return c == code })
	s.changed(Change{senderKey, code, t.InspectionStatus, "", time.Now()})
	return nil
}

// Template returns a template as it stands now, and false when there is none.
func (s *Simulator) Template(senderKey, code string) (Template, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.template(senderKey, code)
	if err != nil {
		return Template{}, false
	}
	return *t, true
}

// Document returns the bytes that a detail call would hold inside "data" now.
func (s *Simulator) Document(senderKey, code string) string {
	t, ok := s.Template(senderKey, code)
	if !ok {
		return ""
	}
	return string(encode(t))
}

// template looks a template up; s.mu is held.
func (s *Simulator) template(senderKey, code string) (*Template, error) {
	if own, ok := s.senders[senderKey]; ok {
		if t, ok := own.templates[code]; ok {
			return t, nil
		}
	}
	return nil, errUnknown
}

// changed tells the watcher; s.mu is held.
func (s *Simulator) changed(c Change) {
	if s.watch != nil && c.From != c.To {
		s.watch(c)
	}
}
