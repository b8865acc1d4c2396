package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// answer is one answer before it is sent: what SureM would say, and what a fault has made
// of it.
type answer struct {
	status      int
	header      map[string]string
	contentType string // empty = JSON

	code    any // nil leaves the member out; json.RawMessage stands as it is
	message string
	data    json.RawMessage // empty leaves the member out
	list    *list           // of summaries; data is made from it
	body    []byte          // not nil: stands for all of the above

	refused   bool   // for its token, secret or sender key: no fault is spent on it
	token     *token // of a login
	endOthers func() // of a login: ends the account's other tokens

	// send writes the body in a way of its own. It runs without the Simulator's lock.
	send func(w http.ResponseWriter, r *http.Request, a *answer)
}

// list is one page of summaries.
type list struct {
	rows       []json.RawMessage // of this page
	all        []json.RawMessage
	page, size int
	total      json.RawMessage // empty leaves the member out
	hasNext    json.RawMessage // likewise
}

// turn makes the list show another page of all its rows, or another size of page.
func (l *list) turn(page, size int) {
	from := min((page-1)*size, len(l.all))
	l.rows = l.all[from:min(from+size, len(l.all))]
}

func success(data json.RawMessage) *answer {
	return &answer{status: http.StatusOK, code: "A0000", message: "성공", data: data}
}

func failure(status int, code, message string) *answer {
	return &answer{status: status, code: code, message: message, data: json.RawMessage("null")}
}

// payload is the answer's data member as it would be sent.
func (a *answer) payload() json.RawMessage {
	if a.list == nil {
		return a.data
	}
	return object("list", array(a.list.rows), "total", a.list.total, "hasNext", a.list.hasNext)
}

// replace puts something else in the place of the data.
func (a *answer) replace(data json.RawMessage) { a.list, a.data = nil, data }

// bytes is the body as it would be sent.
func (a *answer) bytes() []byte {
	if a.body != nil {
		return a.body
	}
	var code json.RawMessage
	if a.code != nil {
		code = encode(a.code)
	}
	return object("code", code, "message", encode(a.message), "data", a.payload())
}

// begin writes the status line and the headers. length < 0 leaves Content-Length out.
func (a *answer) begin(w http.ResponseWriter, length int) {
	contentType := a.contentType
	if contentType == "" {
		contentType = "application/json;charset=UTF-8"
	}
	w.Header().Set("Content-Type", contentType)
	if length >= 0 {
		w.Header().Set("Content-Length", strconv.Itoa(length))
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
}

// write sends the answer whole.
func (a *answer) write(w http.ResponseWriter) {
	body := a.bytes()
	a.begin(w, len(body))
	_, _ = w.Write(body)
}

// encode writes a value as SureM does: "<", "&" and letters stand for themselves.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only values of this package come here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// object writes an object of names and raw values in turn; members without a value are left out.
func object(members ...any) json.RawMessage {
	b := []byte{'{'}
	for i := 0; i+1 < len(members); i += 2 {
		value, _ := members[i+1].(json.RawMessage)
		if len(value) == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, encode(members[i])...)
		b = append(append(b, ':'), value...)
	}
	return append(b, '}')
}

func array(values []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

// edit changes members of an object; they come out in the order of their names.
func edit(raw json.RawMessage, change func(members map[string]any)) json.RawMessage {
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return raw
	}
	change(members)
	return encode(members)
}
