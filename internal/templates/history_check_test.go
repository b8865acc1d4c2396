package templates_test

import (
	"fmt"

	"alimtalk-syncer/internal/templates"
)

// check holds what was seen against the promises (contract §8.1 and §8.2) and returns what
// breaks them.
func (h *history) check() []string {
	for _, s := range h.sightings {
		doc := h.documents[s.raw]
		if doc == nil {
			return append(h.faults, "Redis holds what nobody has written: "+s.raw)
		}
		for _, p := range h.passes {
			if fault := p.against(doc, s.code, s.raw, s.at); fault != "" {
				h.faults = append(h.faults, fmt.Sprintf("at %d Redis holds %s, %s", s.at, s.raw, fault))
			}
		}
	}
	for _, a := range h.answers {
		if h.documents[a.raw] == nil {
			return append(h.faults, "a reader got what nobody has sent: "+a.raw)
		}
		h.checkAnswer(a)
	}
	return h.faults
}

// against says what a pass has against a document that stood in Redis after at, or "".
func (p *pass) against(doc *documentOf, code, raw string, at int64) string {
	shown, listed := p.shows[code]
	if !listed || p.ended == 0 || p.ended > at {
		return ""
	}
	if p.saw[code] == raw && doc.version == shown {
		return "" // it was there at the comparison, and agreed
	}
	switch {
	case doc.sent == 0 && doc.written.Load() < p.began:
		return fmt.Sprintf("written without the fence by %d, before the %v", doc.written.Load(), p)
	case doc.sent != 0 && doc.sent < p.arrived:
		return fmt.Sprintf("from a detail call sent at %d, before the %v", doc.sent, p)
	}
	return ""
}

func (p *pass) String() string {
	return fmt.Sprintf("%s of process %d that began at %d, whose summaries arrived at %d with %v, that saw %q and ended at %d",
		p.name, p.process, p.began, p.arrived, p.shows, p.saw, p.ended)
}

func (h *history) checkAnswer(a answer) {
	doc := h.documents[a.raw]
	tell := func(format string, args ...any) {
		h.faults = append(h.faults, fmt.Sprintf("a reader in process %d that came at %d and joined at %d got at %d via %d %s: ", a.process, a.came, a.joined, a.answered, a.via, a.raw)+fmt.Sprintf(format, args...))
	}
	if doc.code != a.code {
		tell("it wanted %s", a.code)
	}
	for _, p := range h.passes {
		shown, listed := p.shows[a.code]
		if !listed || p.ended == 0 || p.ended > a.came {
			continue
		}
		if doc.sent == 0 { // of the application's writing: as long as it may stand
			if fault := p.against(doc, a.code, a.raw, a.came); fault != "" {
				tell("%s", fault)
			}
		} else if doc.version < shown {
			tell("version %d, older than the %v", doc.version, p)
		}
	}
	if doc.sent < a.came && doc.stood.Load() < a.came {
		tell("it was last known to be good before that: the detail call was sent at %d, it stood in Redis at %d", doc.sent, doc.stood.Load())
	}
	runs := 0
	for _, l := range h.looks {
		if l.process == a.process && l.code == a.code && l.at > a.joined && l.at < a.answered {
			runs++
		}
	}
	if runs > 2 {
		tell("%d runs have begun meanwhile", runs)
	}
}

// figures say what histories were made of.
type figures map[string]int

// mustBe are those without which a history shows little.
var mustBe = []string{"passes", "failed passes", "DELETEs", "hits", "stored", "not stored", "shared", "unfenced", "seen in Redis", "waits for another's load"}

func (h *history) count(f figures) {
	f["changes"] += changesEach
	for _, p := range h.passes {
		switch {
		case p.saw == nil:
			f["DELETEs"]++
		case p.ended != 0:
			f["passes"]++
		default:
			f["failed passes"]++
		}
	}
	for _, a := range h.answers {
		switch {
		case h.documents[a.raw].sent == 0:
			f["unfenced"]++
		case a.via == templates.Hit:
			f["hits"]++
		case a.via == templates.Stored:
			f["stored"]++
		case a.via == templates.Collapsed:
			f["shared"]++
		default:
			f["not stored"]++
		}
	}
	f["seen in Redis"] += len(h.sightings)
	f["waits for another's load"] += h.waits
}
