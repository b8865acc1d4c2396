package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes are what serves each path.
type routes struct {
	template, list, sync, status methods            // below /v1
	page                         methods            // "/"
	open                         map[string]methods // for everyone, by the one part of their path
}

// target is what a path names: its parts unescaped, and still to be checked.
type target struct{ hospitalID, code string }

type handler func(http.ResponseWriter, *http.Request, target)

// methods serve one path; nil is no path. HEAD is a GET whose body net/http leaves out.
type methods map[string]handler

func (s *server) routes() *routes {
	get := func(h http.Handler) methods {
		if h == nil {
			return nil
		}
		return methods{http.MethodGet: func(w http.ResponseWriter, r *http.Request, _ target) { h.ServeHTTP(w, r) }}
	}
	return &routes{
		template: methods{http.MethodGet: s.template(s.detail), http.MethodDelete: s.template(s.forget)},
		list:     methods{http.MethodGet: s.hospital(s.list)},
		sync:     methods{http.MethodPost: s.reloaded(s.hospital(s.sync))},
		status:   get(s.Status),
		page:     get(s.Page),
		open: map[string]methods{
			"healthz": get(http.HandlerFunc(s.healthz)),
			"readyz":  get(http.HandlerFunc(s.readyz)),
			"metrics": get(promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{})),
		},
	}
}

// route answers a request. http.ServeMux is not what is wanted here: it answers empty and dot
// segments with a redirect, where a hostile path has to arrive at the check of what it was
// meant to be, and it takes a twentieth of a hit's time.
func (s *server) route(w http.ResponseWriter, r *http.Request, to *routes) {
	path, ok := segments(r.URL)
	switch {
	case !ok:
		notFound(w)
	case path[0] == "v1":
		if s.gate.admits(w, r, bearer) {
			m, at := to.below(path[1:])
			m.serve(w, r, at)
		}
	case len(path) > 1:
		notFound(w)
	case path[0] == "" && to.page != nil:
		if s.gate.admits(w, r, bearer, basic) {
			to.page.serve(w, r, target{})
		}
	default:
		to.open[path[0]].serve(w, r, target{})
	}
}

// below finds what serves a path below /v1, and what that names.
func (to *routes) below(path []string) (methods, target) {
	switch {
	case len(path) == 1 && path[0] == "status":
		return to.status, target{}
	case len(path) < 3 || path[0] != "hospitals":
		return nil, target{}
	}
	at := target{hospitalID: path[1]}
	switch {
	case len(path) == 3 && path[2] == "templates":
		return to.list, at
	case len(path) == 3 && path[2] == "sync":
		return to.sync, at
	case len(path) == 4 && path[2] == "templates":
		at.code = path[3]
		return to.template, at
	}
	return nil, target{}
}

// segments are the parts of a path between its slashes, each unescaped after the path was
// split, so that an escaped slash is a part's own. False when it is no path ("OPTIONS *").
func segments(u *url.URL) ([]string, bool) {
	if u.RawPath == "" { // no byte was escaped that need not be: all slashes are slashes
		path, ok := strings.CutPrefix(u.Path, "/")
		return strings.Split(path, "/"), ok
	}
	path, ok := strings.CutPrefix(u.RawPath, "/")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return nil, false
		}
	}
	return parts, ok
}

func (m methods) serve(w http.ResponseWriter, r *http.Request, at target) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch serve := m[method]; {
	case serve != nil:
		serve(w, r, at)
	case m == nil:
		notFound(w)
	default:
		w.Header().Set("Allow", m.allowed())
		problem{Status: http.StatusMethodNotAllowed, Detail: "this path does not know the method"}.write(w)
	}
}

// allowed lists the methods, as Allow has them (RFC 9110, 10.2.1).
func (m methods) allowed() string {
	var allow []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPost} {
		if m[method] != nil {
			allow = append(allow, method)
		}
	}
	if m[http.MethodGet] != nil {
		allow = append(allow, http.MethodHead)
	}
	return strings.Join(allow, ", ")
}

func notFound(w http.ResponseWriter) {
	problem{Status: http.StatusNotFound, Detail: "no such path"}.write(w)
}
