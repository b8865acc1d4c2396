package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// sureM is a SureM over HTTP that costs as little as one can: every hospital has the same
// templates, and every other code is a template too. Details take detailTime.
type sureM struct {
	url     string
	details atomic.Int64 // calls
	lists   atomic.Int64
}

const detailTime = 50 * time.Millisecond

func (b *bench) sureM() *sureM {
	e := newEntries(0, entrySize)
	rows := make([]string, perHospital)
	for i, row := range e.rows[nothing][0] {
		rows[i] = row.Raw
	}
	list := `{"code":"A0000","message":"ok","data":{"total":15,"list":[` + strings.Join(rows, ",") + `]}}`
	s := &sureM{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/auth/token", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, `{"code":"A0000","message":"ok","data":{"accessToken":"token","expiresIn":3600}}`)
	})
	mux.HandleFunc("GET /api/v1/alimtalk/templates", func(w http.ResponseWriter, _ *http.Request) {
		s.lists.Add(1)
		answer(w, list)
	})
	before, after, _ := strings.Cut(e.documents[0], code(0))
	mux.HandleFunc("GET /api/v1/alimtalk/templates/{code}", func(w http.ResponseWriter, r *http.Request) {
		s.details.Add(1)
		time.Sleep(detailTime)
		answer(w, `{"code":"A0000","message":"ok","data":`+before+r.PathValue("code")+after+`}`)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	b.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	return s
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(body))
}
